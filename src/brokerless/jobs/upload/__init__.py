"""Writes partitions as remote segments of a bucket, in the layout of tiered storage (Aiven's plugin), byte for byte."""
