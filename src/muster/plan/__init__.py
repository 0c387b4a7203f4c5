"""Arrays become a choice: pure, deterministic and silent.

The Plan is a value. It can be printed, compared, replayed, checked and explained. Empty until the engine issue lands.
"""
