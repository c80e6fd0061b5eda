"""Structured Streaming: the readers for Spark 4.1 and 4.2, and the tracker of new records."""
