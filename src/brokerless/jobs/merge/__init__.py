"""One log from the replicas on several brokers' disks.

The *leading replica* has the history that counts: the greatest leader epoch, and of these the longest log. Another one
*agrees* with it up to the offset at which their epochs part; what it has beyond is a *divergence*, and left out. A
*gap* is where the leading one is damaged or lacks a file; what another replica fills it with is its *contribution*.
"""
