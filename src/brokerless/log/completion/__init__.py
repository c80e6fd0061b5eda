"""A partition's files as the next start of a broker completes them."""
