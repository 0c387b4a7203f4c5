"""Arrays become a choice: pure, deterministic, silent.

`cycle` is the order of all steps. `attempt` asks one question about one gang, `demand` says which children and pods it
is about, `solve` answers it: by a sum, by counting, by search. The result is a `Plan` (`outcome`), and `invariants` has
seen every decision in it.
"""
