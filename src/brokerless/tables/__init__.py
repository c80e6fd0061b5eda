"""Decoded columns as Arrow tables, and Arrow tables as columns to write."""
