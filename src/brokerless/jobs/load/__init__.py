"""Records from tables and files into new partitions."""
