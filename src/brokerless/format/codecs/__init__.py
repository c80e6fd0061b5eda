"""gzip, snappy, lz4 and zstd in the framings that Kafka uses."""
