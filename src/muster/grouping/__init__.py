"""A pod and its owners become the gang they belong to.

Every workload kind, built in or a user's own, is one ResourceInterface: data in `catalog/`, never Python per kind. What
it says about an object is written in `language`, a total subset of jq. The catalog holds the kinds that only hand over
to the owner below; the others come with the grouping issue.
"""
