"""Groups in Kafka's own topics: their state, and their positions in other topics."""
