"""The local mirror of watched objects, and the frozen arrays that are built from it for one cycle.

`world` is the mirror, `room` what nodes have and pods hold, `requests` what a pod asks for, `selectors` where it may
go, `domains` how the nodes nest. Behind this layer there are rows and amounts, no Kubernetes objects. The frozen arrays
of a cycle come with the engine.
"""
