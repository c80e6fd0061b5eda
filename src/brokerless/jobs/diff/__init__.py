"""Compares two logs record by record, and says the cause of each difference."""
