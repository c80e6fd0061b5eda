"""A dry run of a broker's next start on its log directories.

An *effect* is one thing that the start does: a kind, a place, bytes and offsets. It is *refused* where the broker ends
instead. What the start cuts off a log is after the first batch that its *recovery* does not take.
"""
