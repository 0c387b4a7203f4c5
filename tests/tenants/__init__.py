"""Worlds of tenants: three rivals on one embedded cluster make every edit that the role `edit` allows. What others were
promised is checked at each write of muster.

`python -m tenants --minutes 30 --seed 1` (`make tenants`) plays one world in real time: the real muster process against
the embedded API server, with the shipped admission policy. `edits` draws what a tenant does, `promises` checks.
"""
