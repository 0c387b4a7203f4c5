"""Virtual time over the real controllers and the embedded server: stories, faults as data, seeds.

    seed ─drawing─▶ Story ◀─ file            Story ─play─▶ Outcome: what was broken, what happened, its hash

A muster process is `controllers.process.Process`, the very one that `muster run` runs, on an event loop of its own:
one that is paused stands still, one that crashes is gone without a word. Between it and the embedded API server is a
`wire` on which things go wrong as the story says. `people` do what people, operators and nodes do; `judging` looks
after every change, `rest` when calm has come. Nothing sleeps, nothing is left to chance but what the seed says.
"""
