"""Rebuilds a cluster from its disks: formatted, consistent log directories with which brokers start."""
