"""Topics of MirrorMaker and of Kafka Connect: what their records say, and their tables."""
