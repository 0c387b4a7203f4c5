"""What "behaviour stays" means while the structure changes: recorded digests, and measures of the structure.

`make seams` prints the measures, `make frozen` compares what muster does now with what was recorded. No digest covers
sentences for people.
"""
