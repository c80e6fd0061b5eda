"""Files of other formats: JSON Lines, Parquet, directories with Hive's paths.

An *input source* is files that are read as one, nearly always a single one; what ``export`` wrote of a partition by
date is several, whose rows are *merged* by offset. A directory such as ``topic=orders`` is a *column* of Hive's layout:
files below it have that topic. A *split* is a part of a file that another process reads: some row groups of Parquet, or
some whole lines. The *place* of a row is its file and its line or row there, for errors.

The *mode* says how bytes become JSON: as text or base64 by what they are, always as base64, or verbatim, as JSON that
they are already. A writer yields *pieces* of output, which may end anywhere, so that a large value is never in memory
several times. Lines that ``cat --json`` wrote are parsed by a kernel, all others one by one.
"""
