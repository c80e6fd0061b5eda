"""Frees space in a broker's log directory: which whole segments can go, and what each costs."""
