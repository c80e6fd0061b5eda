"""What a broker does to produced batches: validation, offsets, leader epochs, LogAppendTime.

A batch is *produced* as a client sends it, and *written* as the log gets it: with offsets, leader epoch and timestamps.
That is done *in place* if the batch has the topic's format and codec, so that only its header changes; else its records
are *rewritten*. The *origin* says who appends: a client must not do all that a coordinator may. A *refusal* is why
nothing of a request is written: Kafka's exception, its message, and the records that are to blame.
"""
