"""Every byte of a file as a named field: where it is, what it says, and where that comes from."""
