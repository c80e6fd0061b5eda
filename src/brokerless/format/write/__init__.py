"""Columns and single records into batches of every format."""
