"""The page over HTTP: the views of the last cycles, to those who may see them, live or frozen in one file.

`app` answers requests; `gate` and `callers` say who may ask; `history` keeps scenes; `streams` tells what is new; the
files of the browser are in `serve/static`.
"""
