"""Some records removed from whole logs, all others unchanged at their offsets; with a signed manifest."""
