"""Backs up the disks of a cluster into a bucket in the layout of tiered storage, one copy of each batch."""
