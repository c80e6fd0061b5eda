"""Each offset once, as a consumer gets it, whatever overlaps: batches, segments, copies of a log.

- ``records``: which offsets the records of batches have, and which of these come again in a file
- ``in_file``: which decoded records are given, of batches that overlap in one file: those of the first
- ``segments``: the same of segments: those of the first one, or of the one whose name has the offset
- ``batches``: the same for batches that are written again; ``parts``: some of a batch's records as a batch
- ``selection``: which batches make one log, of all intact ones in its files and copies, in an order of preference
- ``findings``: what is said of what is left out, or of offsets that cannot be right

Sets of offsets are spans, as in :mod:`brokerless.offset_spans`.
"""
