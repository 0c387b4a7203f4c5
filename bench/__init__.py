"""Benchmarks: what things cost, as one table. Never a test: a number is looked at, not asserted."""
