"""The loops that act: the scheduler's five lines, the grouper, the status writer.

Empty until the Kubernetes issue lands.
"""
