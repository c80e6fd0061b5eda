"""Finds the types of decoded keys and values on the driver, as a query's schema is known before its rows."""

from __future__ import annotations

from dataclasses import replace

from brokerless.errors import UsageError
from brokerless.spark.discovery import find_partitions
from brokerless.spark.options import Options
from brokerless.typed.records import one_type, resolve_types


def with_types(options: Options) -> Options:
    """Return the options with the type of the topics that they select, where keys and values are decoded.

    Raises :class:`UsageError` for topics of different types: a query is one table, so it reads one topic."""
    if options.decoding is None:
        return options
    if options.table != "records":
        raise UsageError(f"option decode: the table {options.table} has no keys and values; it is for records")
    partitions = find_partitions(options)
    if options.topics.subscribe is None and options.topics.assign is None:
        partitions = [each for each in partitions if each.topic is None or not each.topic.startswith("_")]
    types = resolve_types(partitions, options.decoding, max_batch_bytes=options.max_batch_bytes)
    return replace(options, topic_type=one_type(types).in_microseconds())
