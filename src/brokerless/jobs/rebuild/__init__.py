"""Rebuilds a cluster from its disks: formatted, consistent log directories with which brokers start.

A *node* of the rebuilt cluster takes over disks of an old one. A replica is *held* if it is on a disk where the
metadata wants it. A topic that only the disks have is *adopted* if that was requested. A *stand-in* is an empty log
that begins after the last remote segment of a partition. *Lost* is what the old cluster had and the new one has not:
topics, positions, settings.
"""
