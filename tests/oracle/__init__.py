"""Slow, obvious programs that judge the engine. They read the same documents and share no code with it.

`problem` is a gang on a cluster as it is written, `enumerate` tries every placement, `milp` asks a solver, and
`instances` makes random problems. `gangs` and `queues` are all that share a cluster, `rights` what each of them may do,
and `victims` tries every set of pods that could be evicted.
"""
