"""How Kafka defines the settings of topics and brokers, and which values a version refuses."""
