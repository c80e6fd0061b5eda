"""A directory of segments: what is in it, how it is read, and how it changes."""
