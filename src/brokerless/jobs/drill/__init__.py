"""Tries whether a cluster can be rebuilt of a snapshot of a backup, and says what was tried."""
