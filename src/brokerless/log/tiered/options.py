"""Storage options of tiered storage: key pairs, the layout of copies, and where remote segments are.

They travel with a :class:`Location`, to the processes and executors that read it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from brokerless.errors import UsageError
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import StorageOptions
from brokerless.log.tiered.decryption import KeyPairs, check_private_key, read_key_file
from brokerless.log.tiered.detection import OPTION
from brokerless.log.tiered.layout import parse_layout

KeyFiles = Mapping[str, str | os.PathLike[str]]
Remote = Iterable[str | os.PathLike[str]] | str | os.PathLike[str]
"""A bucket, or several."""


def with_tiered_options(
    location: Location, key_pairs: KeyFiles | None, layout: str | None, remote: Remote | None
) -> Location:
    """Return a location with these among its options; see :func:`tiered_options`."""
    options = tiered_options(location.options or {}, key_pairs or {}, layout, remote)
    return location if options == (location.options or {}) else Location(location.path, options)


def tiered_options(
    options: StorageOptions, key_pairs: KeyFiles, layout: str | None, remote: Remote | None
) -> dict[str, Any]:
    """Return storage options with what was given for tiered storage. Files of keys are read here.

    Raises :class:`UsageError` for what is no key or layout, and :class:`UnreadableError` for a file that is not there.
    """
    if not isinstance(key_pairs, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError("key_pairs: give files by the names of their key pairs, such as {'key1': 'key1.pem'}")
    buckets = [] if remote is None else [remote] if isinstance(remote, str | os.PathLike) else list(remote)
    for what, given in (("layout", layout), *(("remote", each) for each in buckets)):
        if given is not None and not isinstance(given, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"{what}: {given!r} is no text")
    own: dict[str, Any] = dict(options.get(OPTION) or {})
    if key_pairs:
        own["key_pairs"] = load_private_keys(key_pairs)
    if layout is not None:
        own["layout"] = parse_layout(layout).text
    if buckets:
        if layout is not None:
            raise UsageError("layout and remote: give one of them; copies of segments are no remote segments")
        own["remote"] = [os.fspath(each) for each in buckets]
    return {**options, OPTION: own} if own else dict(options)


def load_private_keys(files: KeyFiles) -> KeyPairs:
    """Read private keys from files, by the names of their key pairs. Raises :class:`UsageError` for what is none, and
    :class:`UnreadableError` for a file that is not there."""
    return KeyPairs({name: _read_key(name, file) for name, file in files.items()})


def _read_key(name: str, file: object) -> bytes:
    pem = read_key_file(name, file, "private")
    check_private_key(name, pem)
    return pem
