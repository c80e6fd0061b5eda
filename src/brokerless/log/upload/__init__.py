"""A partition's batches written as remote segments."""
