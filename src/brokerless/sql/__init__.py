"""SQL on a log, by DuckDB on the tables' datasets."""
