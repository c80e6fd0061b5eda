"""Checks that an erasure did what its manifest says, and nothing else."""
