"""What is done to whole logs: one package for each job, on this machine's processors or on Spark."""
