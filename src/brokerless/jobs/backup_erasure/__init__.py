"""Records erased in all snapshots of a backup, and the proof of that."""
