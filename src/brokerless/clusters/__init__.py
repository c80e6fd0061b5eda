"""What the disks of a cluster say of it: its nodes, replicas and metadata, and what a broker's start makes of them.

A *disk* is one log directory, as ``log.dirs`` has it. A *replica* is a partition's directory on a disk, in the state
that its name tells: live, future (being moved here), stray, or to be deleted. Its *placement* is what the cluster's
metadata says of it: one verdict, which every command reports alike.
"""
