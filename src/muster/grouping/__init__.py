"""A pod and its owners become the gang they belong to.

Every workload kind, built in or a user's own, is one ResourceInterface: data in `catalog/`, never Python per kind.
Empty until the grouping issue lands.
"""
