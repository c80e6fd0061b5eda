"""Frees space in a broker's log directory: which whole segments can go, and what each costs.

A *candidate* is a segment that may go; the last one of a partition is none. Candidates go in an order: *deleted* ones,
of which all records are before the log start offset, then those that are *expired* by the topic's retention, then the
oldest. The *limits* say how much goes: as many bytes as are to be free, what is older than a time, or what retention
lets go. Files are *waiting* that a broker removes anyway, such as segments that are deleted already.
"""
