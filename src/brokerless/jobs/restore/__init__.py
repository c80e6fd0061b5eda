"""Restores topics: into the log directories of stopped brokers, or into a running cluster by producing."""
