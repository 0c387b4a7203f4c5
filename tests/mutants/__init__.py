"""Seeded bugs that the suite must kill: each is data, a text in one module that is replaced by a plausible mistake.

`make mutants` puts them into a copy of the program one at a time, and says which test notices.
"""
