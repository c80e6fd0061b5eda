"""Writes partitions again as others: what convert, compact, erase, salvage and merge share."""
