"""The loops that act: the scheduler's five lines, the grouper, and what each gang is told.

`scheduler` holds the state between cycles and does no I/O; `loop` feeds it and carries out what it says; `flights` are
writes that were sent and not seen yet. `grouper` gives pods a gang, `followed` finds their owners, whatever their kind.
"""
