"""The audit: every check that needs nothing but the files, in one pass."""
