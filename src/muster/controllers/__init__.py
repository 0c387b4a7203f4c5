"""The loops that act: the scheduler's five lines, the grouper, and what people are told.

Scheduling: `scheduler` holds the state between cycles and does no I/O; `loop` feeds it and carries out what it says;
`flights` are writes that were sent and not seen yet, `patience` who rests after failures, `telling` writes statuses,
conditions and events. `sights` knows what was listed and when it was last heard of, `comparer` compares the mirror with
the cluster, `leading` says whether this process may act.

Grouping: `grouper` gives pods a gang; `followed` finds their owners, whatever their kind, `dependents` knows who looked
at what, `interfaces` compiles ResourceInterfaces and tells them so, `commits` writes, `complaints` says what can't be
grouped, `retiring` deletes PodGroups of instances that went.
"""
