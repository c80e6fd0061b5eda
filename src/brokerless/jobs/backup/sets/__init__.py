"""Sets: each host of a broker stores what its node leads, and all of these parts are read as one snapshot.

A *part* is what one host stored: the partitions whose leader is its *node*, or, while a partition has no leader, the
first node that is in sync, could be elected or has a replica. A *set* is parts of one name. Its newest parts are
*joined* to a snapshot once all are there; until then, the nodes without a part that lead something are *awaited*. The
newest metadata among the parts says which partitions there should be: one that is in no part is *missing*, and one that
is in several is taken from the part with the newest epoch, or else the longest log.

A transaction is *divided* if it is open in one part and may have ended in another, as the logs were cut at two times.
"""
