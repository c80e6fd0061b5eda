"""Snapshots of a backup: which segments of a bucket were the cluster's logs at a time."""
