"""Recovery of a log after an unclean stop, and loading it for writing."""
