"""The page over HTTP: the views of the last cycles, to those who may see them, live or frozen in one file.

`app` answers requests; `gate` and `callers` say who may ask; `history` keeps scenes; `streams` tells what is new; the
files of the browser are in `serve/static`.

Which thread does what, while a page is served:

- The event loop, which is that of the scheduler, takes requests, asks who somebody is, sends, and calls of `History`
  `note`, and what only looks something up: `version`, `scene`, `namespaces`, `hidden`. `Asking` copies here what it
  needs of the world.
- The thread that draws ("page") calls `frame`, `delta`, `timeline` and `decision` of `History`, and makes JSON of what
  they give, and of what-ifs as their senders may see them. The views and marks that `History` remembers are its own: no
  other thread makes them.
- Two threads answer, one question at a time each: "explanations", of a scene that it was given, and "what-ifs", of a
  copy of the world. They never see the `History`.

What they share is not changed once it is made: scenes, and the ring of them, which `note` replaces as a whole. Some
values of plans and snapshots are found out at the first look and remembered (`once`, masks of nodes); two threads that
look at the same time find out the same twice, and either may stay. So nothing is locked. Who answers without a server
(`muster plan --html`) does all of it in one thread.
"""
