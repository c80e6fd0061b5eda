"""Kafka's wire protocol by tables: requests decoded, responses encoded."""
