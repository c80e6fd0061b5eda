"""What :func:`brokerless.open` returns: a log and its partitions, with their tables and jobs."""
