"""Recovery of a log after an unclean stop, and loading it for writing.

A segment is *recovered* if a broker reads it batch by batch when it loads the log: it is *cut* before its first invalid
batch, and its indexes are rebuilt. There is a *reason* for each: it is not flushed, an index of it is missing, and so
on. All other segments are *trusted*: taken as their files say. A *plan* has what is done to all files, as values.

What is *flushed* is before the recovery point, or all of the log after a clean stop. A segment is *dropped* if the
order of its offsets is wrong, so that nothing of it stays. It is *split* into *parts* if its offsets are too far apart
for its indexes (KAFKA-6264). A *misleading* index is one of a trusted segment by which a broker gets something wrong:
the age of a segment, aborted records, or where the log ends.
"""
