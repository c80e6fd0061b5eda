"""Every byte of a file as a named field: where it is, what it says, and where that comes from.

A *field* has a place, a name and a value, and fields within it; its *meaning* is a sentence on that value. What nothing
explains is a field, too, so that the fields of a file are all of its bytes.
"""
