"""What is served: topics and partitions in log directories, their offsets, and the ranges of files with their
batches."""
