"""Removes snapshots of a backup by rules, and the objects that no snapshot names any more."""
