"""Compares two logs, or the replicas of one cluster, and finds the cause of each difference.

A *side* is one of the two; several disks of a cluster are one side. An *alignment* is how records of the two are
paired: by offsets, by an offset map, or in their order between two anchors. A *cause* is known by a rule, and some are
*allowed*. What is compared *beside* records are groups, settings, ACLs, users and quotas.
"""
