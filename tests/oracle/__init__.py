"""Slow, obvious programs that judge the engine. They read the same documents and share no code with it.

`problem` is a gang on a cluster as it is written, `enumerate` tries every placement, `milp` asks a solver, and
`instances` makes random problems.
"""
