"""Typed values: keys and values decoded by their schemas, offline, as Arrow columns."""
