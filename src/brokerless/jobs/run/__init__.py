"""Runs a job's tasks: in this process, in several processes, or on Spark.

A job has a *plan*, made on the *driver* (the process that was called): a list of *tasks*, plain values that can be sent
to another process. *Work* is the function that does one task, wherever it runs, and returns a *value*; what is made of
the values, a *commit* for example, is done on the driver. A *stream* is work that yields several values, each at once.
Work calls ``done`` with the bytes that it has read; ``say`` is called with what people should know. A *place* is where
tasks run, once that is decided.
"""
