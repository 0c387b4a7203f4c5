"""Expressions: a total language that is a strict subset of jq. Whatever it accepts means what jq means.

Text becomes tokens (`tokens`), a tree (`parse`, `syntax`), and functions (`evaluate`, `forms`) over `values`, with the
`numbers`, `operators` and `functions` of jq. What jq has and the language has not is refused with its column and with
what to write instead (`refusals`). `limits` says what all of it may cost. `expression` is the door.
"""
