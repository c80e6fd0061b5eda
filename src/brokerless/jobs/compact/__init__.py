"""Compacts partitions as Kafka's cleaner does: the last value of each key stays, at its offset."""
