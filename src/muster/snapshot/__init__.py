"""The local mirror of watched objects, and the frozen arrays that are built from it for one cycle.

`world` is the mirror, `room` what nodes have and pods hold, `requests` what a pod asks for, `selectors` where it may
go, `domains` how the nodes nest, `queues` who is charged, `guards` the disruption budgets, `kept` room for pods that
were moved, `gangs` a PodGroup with its pods, `times` when, `arrays` what a cycle sees, `build` how it comes about.
Behind this layer there are rows and amounts, no Kubernetes objects.
"""
