"""The local mirror of watched objects, and the frozen arrays that are built from it for one cycle.

`requests` says what a pod asks for, `selectors` where it may go, `domains` how the nodes nest. Behind this layer there
are rows and amounts, no Kubernetes objects. The mirror and the arrays themselves come with the engine.
"""
