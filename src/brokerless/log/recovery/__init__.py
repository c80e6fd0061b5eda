"""What loading a log does to its files after an unclean stop."""
