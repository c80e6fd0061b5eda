"""Runs jobs on whole logs: one package for each, on this machine's processors or on Spark.

A *run* is one call of a job, from its plan to its commit; a run of offsets, of batches or of bytes is some that follow
each other. A *source* is what is read, a *target* where something is written: a log directory, a topic of another
cluster, a table. The *replicas* of a partition are its logs on the disks of several brokers. What is *copied* is
written again byte for byte; a package whose *copies* are something else says so.
"""
