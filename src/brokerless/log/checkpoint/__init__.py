"""The checkpoint and metadata files of partitions and log directories."""
