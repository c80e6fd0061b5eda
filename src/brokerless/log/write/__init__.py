"""A partition's log opened for writing: append, roll, flush, truncate, retention.

The *active segment* is the last one, the only one that is appended to; all others are *closed*. To *roll* is to begin
the next one. Whether a batch needs a new segment, and gets index entries, follows from numbers: the *state* of the
segment (bytes, offsets, times) and its *limits*, which are the topic's settings. *Boundaries* are offsets at which a
copied log is rolled as well, so that it has the segments of its source.

A *leader* validates a produce request, assigns offsets and checks sequences before it appends. A *follower* appends
batches unchanged, with the offsets that they have. All that was appended counts as replicated: there is no other
replica, and the high watermark is the log's end. The *recovery point* is the offset up to which everything is synced.

A partition is written in *bulk* if nobody reads it before it is complete: it is synced when it is flushed, and not with
each new segment. Files are *put aside* when they are renamed to ``.deleted``, as a broker does before it removes them.
"""
