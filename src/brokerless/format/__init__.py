"""Bytes to columns and back: buffers in, arrays out. Opens no file, prints nothing, knows no Spark."""
