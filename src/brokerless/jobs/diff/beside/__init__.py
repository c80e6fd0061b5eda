"""Compares what two clusters have beside records: positions of groups, settings, topics, ACLs, users and quotas."""
