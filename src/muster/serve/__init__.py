"""HTTP out: the admission webhook with its certificates, health, metrics; the page is still to come.

`webhook`, `health` and `metrics` answer, `certificates` and `publishing` see to it that API servers trust the answer,
`server` listens.
"""
