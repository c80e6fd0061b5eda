"""Offset, time and transaction indexes: read, checked, written."""
