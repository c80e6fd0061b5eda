"""The selection of ``erase`` and ``prove`` by their options ``--key``, ``--keys``, ``--where`` and ``--header``."""

from __future__ import annotations

import os
from argparse import Namespace
from typing import TYPE_CHECKING

from brokerless.errors import UsageError

if TYPE_CHECKING:
    from brokerless.jobs.erase.selection import Selection


def selection_of(options: Namespace) -> Selection | None:
    """Return the selection that the options make; None without any. Raises :class:`UsageError` for several of them,
    UnreadableError."""
    from brokerless.cli.output import spool_stdin
    from brokerless.jobs.erase.key_set import KeySet, load_keys
    from brokerless.jobs.erase.selection import Selection
    from brokerless.tables.record_filter import parse_header

    has_key = "key" in options
    used = [each for each in ("key", "keys", "where", "header") if getattr(options, each, None) is not None]
    if len(used) > 1:
        raise UsageError(one_of(has_key=has_key))
    if not used:
        return None
    keys = None
    if used == ["key"]:
        if "" in options.key:
            raise UsageError("--key is empty; records with a key of no bytes are those --where 'octet_length(key) = 0'")
        keys = KeySet.of(map(os.fsencode, options.key))
    elif used == ["keys"]:
        if options.keys == "-":
            if "-" in getattr(options, "paths", ()):
                raise UsageError("stdin has either the log or the keys; write one of them to a file")
            spool_stdin()
        keys = load_keys(options.keys, options.keys_format)
    header = None if options.header is None else parse_header(options.header)
    return Selection(keys, options.where, header)


def one_of(*, has_key: bool) -> str:
    """Return what to say where none, or several, of the options are there."""
    return f"select the records by one of {'--key KEY, ' * has_key}--keys FILE, --where SQL and --header NAME=VALUE"
