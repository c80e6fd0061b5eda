"""What salvage, merge and carve share: intact batches, damaged regions, losses."""
