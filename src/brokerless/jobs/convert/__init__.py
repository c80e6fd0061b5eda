"""Partitions rewritten in another message format, codec or batch size."""
