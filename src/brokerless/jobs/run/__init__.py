"""Runs a job's tasks: in this process, in several processes, or on Spark."""
