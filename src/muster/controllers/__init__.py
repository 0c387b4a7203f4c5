"""The loops that act: the scheduler's five lines, the grouper, the status writer.

So far: `flights`, what was sent and not seen yet. The loops come with the Kubernetes issue.
"""
