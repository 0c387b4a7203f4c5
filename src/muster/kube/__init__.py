"""The only package that speaks HTTP to an API server: client, list and watch, apply, lease.

Empty until the Kubernetes issue lands.
"""
