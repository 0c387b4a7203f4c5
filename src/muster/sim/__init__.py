"""Virtual time over the real controllers and the embedded server: scenarios, faults as data, seeds.

Empty until the embedded issue lands.
"""
