"""A partition's log opened for writing: append, roll, flush, truncate, retention."""
