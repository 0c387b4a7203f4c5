"""What the page shows, as values: a scene (a plan, and the little of the world that it lacks) becomes documents.

Pure: no clock, no thread, no network, and nothing here knows who serves it. `frame` puts a view together out of gangs,
nodes and queues, `timeline` has the marks between two scenes, `decided` one decision, `seeing` what a caller sees.
"""
