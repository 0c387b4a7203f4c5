"""The only package that speaks HTTP to an API server. Nothing here knows what a gang is.

`kubeconfig` finds the server and says who we are (`connection`, `credentials`, `plugin`). `client` asks it one thing at
a time over a `transport`; `watch` follows a resource for ever; `lease` elects a leader; `events` tells people;
`discovery` finds the resource of a kind. The transport and the clock are parameters, so all of it runs in virtual time.
"""
