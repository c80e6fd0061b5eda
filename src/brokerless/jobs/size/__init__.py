"""What a topic costs, and would cost in other formats, codecs and batch sizes.

A *choice* is a message format, a codec with its level, and how large batches are: by records, by bytes, or unchanged
in the log now (*unchanged*). An *estimate* is the size of the topic by one choice, with its 95 % interval; without one,
it is *exact*: the topic was read as a whole.

A *sample* is read instead where a topic is large. It is *runs*: some batches in a row, from drawn places, laid one
after the other as if they were a log. What it stands for is the *population*: the bytes, segments and offsets of the
topic. The *budget* is the bytes to read. For a choice with a codec, the sample is encoded; the *ratio* is the bytes
that this gives for each byte that is there now. A *pass* cuts the sample into batches once, and each *block* of these
is one observation of the ratio.

*Contents* are what the bytes are of: keys, values, headers, and the *overhead* of records and batches; by key, header,
producer and hour, of which the *heaviest* are listed. *Other* bytes are those of batches without records and of control
batches. The *crossover* is the number of records from which on a batch of v2 is smaller than an older format.
"""
