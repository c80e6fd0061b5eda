"""Compares the records of a partition: two sides, read forward at once, and what differs between them."""
