"""Rebuilds the tiered topics of a cluster of which only the bucket is left."""
