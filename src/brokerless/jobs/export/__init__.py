"""Incremental export to Parquet."""
