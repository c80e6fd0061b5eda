"""The intact batches of damaged partitions, or of any bytes, as clean partitions."""
