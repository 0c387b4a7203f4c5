"""The command line: one file per group of commands, each imported only when its command runs.

Commands read files, call the pure layers, and hand what they return to `render`. Nothing is decided here.
"""
