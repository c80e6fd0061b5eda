"""Batches and records of every format into columns, and the search for the next valid batch after damage."""
