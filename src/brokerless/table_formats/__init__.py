"""Tables in open formats, Iceberg and Delta: their types, their rows, and commits that record what was exported.

An *export* appends what is new to a table; its *state*, which is committed with the data, says up to which offset each
partition is in it, and which offsets were left out. A table's *bounds* are the least and greatest values of a file.
"""
