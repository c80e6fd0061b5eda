"""How the tasks of a job run: here, in processes, or on Spark."""
