"""Columns and single records into batches of every format.

A *row* is one record in columns. Rows are *cut* into batches where Kafka's producer would: a batch is *full* when its
header and records reach ``batch_size`` bytes, or would with the next record. With a codec, that is an estimate, by the
compression *ratio* of the batches before. A *break* is a row with which a batch must begin in any case.

A *builder* makes one batch, record by record. An *encoder* writes many, of rows that were cut before. An *open batch*
takes rows while they come and stays open until it is full; it is v2 and has no codec.

A *group* is rows of decoded batches that are to be written again, together with these batches. Its rows may share a new
batch where the old headers say the same of them: producer, sequences, transaction, timestamp type, leader epoch. Each
old batch has an *ordinal*, its number in what is converted at a time, and has ``given`` some of the rows.

*Slack* is bytes after the end of a buffer, which kernels may write to: a wide copy is faster than an exact one.
"""
