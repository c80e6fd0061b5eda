"""Explained fields for a terminal, as JSON Lines, and as a page."""
