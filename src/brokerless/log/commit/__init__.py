"""Partitions written in full first, then made visible together: all of them or none."""
