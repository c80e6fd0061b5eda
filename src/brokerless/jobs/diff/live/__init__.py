"""Reads a running cluster as a side of a comparison, through confluent-kafka; nothing is written to it.

- **running cluster**: what ``kafka://HOST:PORT`` names; it is asked with the settings of a client.
- **live partition**: one of its partitions, from its log start offset to the high watermark of when it was listed.
- **copy**: what a consumer got of a live partition, with the same offsets, as a log in a temporary directory; there is
  one for as long as the partition is compared.
"""
