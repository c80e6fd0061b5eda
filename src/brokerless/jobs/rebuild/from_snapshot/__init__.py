"""Rebuilds a cluster of a snapshot of its backup, in which each partition is stored once."""
