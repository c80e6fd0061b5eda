"""Tables in open formats, Iceberg and Delta: their types, their rows, and commits that record what was exported."""
