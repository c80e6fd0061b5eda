"""Describes the cluster that some disks were of: nodes, metadata, topics, and where the disks disagree."""
