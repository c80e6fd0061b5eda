"""The options that select records: ``--key``, ``--key-regex``, ``--grep``, ``--header`` and ``--where``."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from brokerless.tables.record_filter import RecordFilter


def add_filters(parser: ArgumentParser) -> None:
    add = parser.add_argument
    add("--key", action="append", metavar="KEY", help="only records with this key; can be repeated for any of several")
    add("--key-regex", metavar="REGEX", help="only records in whose key this is found (RE2's syntax)")
    add("--grep", metavar="TEXT", help="only records with this text in key, value, or a header's name or value")
    add("--header", metavar="NAME=VALUE", help="only records with this header")
    help_of_where = (
        "only records for which this condition of DuckDB's SQL holds, on the columns offset, timestamp, key, value, "
        "headers, key_text, value_text, key_json, value_json ... (needs the extra sql)"
    )
    add("--where", metavar="SQL", help=help_of_where)


def filter_of(options: Namespace) -> RecordFilter | None:
    """None without any of the options; all that are given must hold. Raises :class:`UsageError`."""
    given = (options.key, options.key_regex, options.grep, options.header, options.where)
    if all(each is None for each in given):
        return None
    from brokerless.tables.record_filter import RecordFilter, parse_header

    header = None if options.header is None else parse_header(options.header)
    return RecordFilter(options.key, options.key_regex, options.grep, header, options.where)
