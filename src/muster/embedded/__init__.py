"""An API server in this process, for the demo and the simulation.

It knows nothing of the scheduler, so the demo cannot cheat: what it checks of our kinds is handed to it.
Empty until the embedded issue lands.
"""
