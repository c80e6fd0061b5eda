"""Restores topics into a running cluster, by producing."""
