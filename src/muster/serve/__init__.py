"""HTTP out: webhook, page, metrics, health.

Empty until the Kubernetes and page issues land.
"""
