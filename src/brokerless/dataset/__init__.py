"""Tables as ``pyarrow.dataset.Dataset``: what a query of DuckDB, Polars, pandas or Arrow does not need is not read."""
