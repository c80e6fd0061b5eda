"""A directory of segments: what is in it, how it is read, and how it changes.

A *log directory* is one of a broker's ``log.dirs``; a *partition* is a directory in it, ``orders-0``. A *segment* is a
``.log`` file with its indexes, named by its *base offset*, the first that it may have. A *batch* is what a producer
sent at once and what a checksum is of. Reading gives *chunks*: some bytes of a segment, and where batches begin in
them. A *walk* goes through the segments of a partition in order; a *gap* is what is missing between two of them. The
*log start offset* is the first one that consumers get, whatever the files hold before it; the *end offset* is the one
after the last. What is *live* may be changed by a broker while it is read.
"""
