"""The local mirror of watched objects, and the frozen arrays that are built from it for one cycle.

Behind this layer there are rows and amounts, no Kubernetes objects. Empty until the engine issue lands.
"""
