"""Partitions by the objects that a bucket has of them."""
