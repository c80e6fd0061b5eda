"""The selection of ``erase`` and ``prove`` by their options ``--keys``, ``--where`` and ``--header``."""

from __future__ import annotations

from argparse import Namespace
from typing import TYPE_CHECKING

from brokerless.errors import UsageError

if TYPE_CHECKING:
    from brokerless.jobs.erase.selection import Selection


def selection_of(options: Namespace) -> Selection | None:
    """None without any of the options. Raises :class:`UsageError` for several of them, UnreadableError."""
    from brokerless.jobs.erase.key_set import load_keys
    from brokerless.jobs.erase.selection import Selection
    from brokerless.tables.record_filter import parse_header

    used = [each for each in ("keys", "where", "header") if getattr(options, each) is not None]
    if len(used) > 1:
        raise UsageError("select the records by one of --keys FILE, --where SQL and --header NAME=VALUE")
    if not used:
        return None
    keys = None if options.keys is None else load_keys(options.keys, options.keys_format)
    header = None if options.header is None else parse_header(options.header)
    return Selection(keys, options.where, header)
