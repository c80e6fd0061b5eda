"""One module for each command: its options, the call of the library, its output."""
