"""Restores topics into a running cluster, by producing.

The *source* is the log directories that are read; the *target* is the cluster. Records keep their partition and order,
and get new offsets there. The *offset map* has both: its lines are *runs*, records whose offsets follow each other on
both sides. The committed offsets of groups are *translated* by it.

A *production* is records on their way. A record counts once the target has *acknowledged* it; then it goes into the
map, and the *position* of its partition is the offsets after it, on both sides. The *pace* is how many bytes are sent
in a second at most.

After a kill, the target may have records that are not in the map. So its ends are read when they are *settled*, as
nothing was appended for a second. What is there is compared with the next records of the source: those that are the
same are *matched*, and a *foreign* one is not the source's. A partition is *interrupted* if it has foreign records, or
if others write to it while records are sent.
"""
