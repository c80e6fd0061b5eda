"""A read-only Kafka endpoint over log directories: every Kafka client reads them."""
