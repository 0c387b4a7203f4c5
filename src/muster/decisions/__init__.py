"""A Plan becomes words: the decisions that follow from it (`plan`), sentences (`words`), and why a gang waits and what
would help (`explanation`). Nothing here writes or asks for the time.
"""
