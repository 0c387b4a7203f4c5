"""muster: a gang scheduler for Kubernetes. A tree of pod groups lands on a tree of domains, or says why not."""

__version__ = "0.1.0"
