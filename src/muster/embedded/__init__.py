"""An API server in this process, for the demo, the simulation and a playground.

It knows nothing of the scheduler, so the demo cannot cheat: what it checks of our kinds is handed to it. The core has
no sockets, no clock and no chance of its own: a `Request` goes into `server.Server`, an `Answer` comes out, and a
simulation in virtual time runs the same code as the demo. docs/embedded.md says what differs from a real API server.

Below the server: documents and their rules (`objects`), the versioned `store` and its `journal`, `schema` and its fast
form `places`, `selectors`, `patching` and `applying`. The server: `kinds`, `intake`, `writing`, `reading`, `versions`,
`deleting`, `pods`, `garbage`, `defining`, `discovery`, `openapi`, `tables`. Around it: `http`; and what acts by itself:
`kubelet`, `workloads` and `orphans`, driven by `running`.
"""
