"""The check of every batch and index of a log."""
