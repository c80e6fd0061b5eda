"""Checks a backup: whether all that its snapshots name is there, and is what was stored."""
