"""Backups in buckets: their snapshots, each with the segments that were the cluster's logs at a time.

A *snapshot* is one run of ``backup``: a JSON file, which makes it one, and a *list* with a row for each segment. A list
is *full*, or has what came and went since that of its *parent*. ``URL@SNAPSHOT`` is a log directory: the *place* is the
bucket, and what comes after ``@`` selects. Producer snapshots and snapshots of metadata are other things, of Kafka.
"""
