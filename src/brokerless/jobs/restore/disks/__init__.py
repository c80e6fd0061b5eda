"""Restores topics into the log directories of stopped brokers."""
