"""What people see of Kafka's own topics, and of a cluster."""
