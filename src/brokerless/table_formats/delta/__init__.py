"""Delta's tables, by deltalake."""
