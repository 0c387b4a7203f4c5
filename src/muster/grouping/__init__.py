"""A pod and its owners become the gang they belong to.

Every workload kind, built in or a user's own, is one ResourceInterface: data in `catalog/`, never Python per kind. What
it says about an object is written in `language`, a total subset of jq. `grouper` is the door for those who have pods,
`compiler` for those who have a ResourceInterface; both take objects as JSON and give problems as data.
"""
