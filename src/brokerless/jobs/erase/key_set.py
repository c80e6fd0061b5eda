"""Keys of records to erase: any number of them, in as many bytes as they have, and which rows have one of them."""

from __future__ import annotations

import base64
import binascii
import codecs
import itertools
import json
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UsageError
from brokerless.format.columns import RecordColumns
from brokerless.log.storage.location import Location

KeysFormat = Literal["text", "base64", "json"]
MOST_BYTES = 1 << 30
"""Bytes of all keys together; also those of one line of a file."""
_BLOCK = 8 << 20
_FEWEST_SLOTS, _FEWEST_WORDS = 1 << 6, 1 << 8
_BITS_OF_KEY = 16


@dataclass(frozen=True, slots=True, eq=False)
class KeySet:
    """Distinct keys in the order of their bytes: key ``i`` is ``data[ends[i]:ends[i + 1]]``."""

    data: NDArray[np.uint8]
    """The bytes of all keys, one after the other (uint8)."""
    ends: NDArray[np.int64]
    """Where keys end in ``data``, after a 0 (int64)."""

    @classmethod
    def of(cls, keys: Iterable[bytes]) -> KeySet:
        """Raises :class:`UsageError` for more than 1 GiB of them."""
        own = sorted(set(keys))
        ends = np.zeros(len(own) + 1, np.int64)
        np.cumsum(np.fromiter(map(len, own), np.int64, len(own)), out=ends[1:])
        if ends[-1] > MOST_BYTES:
            raise UsageError(f"the keys have {ends[-1]} bytes, and at most {MOST_BYTES} are taken; erase in parts")
        return cls(np.frombuffer(b"".join(own), np.uint8), ends)

    def __len__(self) -> int:
        return len(self.ends) - 1

    def __iter__(self) -> Iterator[bytes]:
        data, ends = self.data.tobytes(), self.ends.tolist()
        return (data[start:end] for start, end in itertools.pairwise(ends))


class KeyFinder:
    """Finds rows with one of the keys of a set; belongs to one thread."""

    def __init__(self, keys: KeySet) -> None:
        from brokerless.jobs.erase.key_set_kernels import put_keys

        slots = max(_FEWEST_SLOTS, 1 << (2 * len(keys)).bit_length())
        words = max(_FEWEST_WORDS, 1 << (_BITS_OF_KEY * len(keys) // 64).bit_length())
        self._seed = np.uint64(secrets.randbits(64))
        self._keys, self._table, self._bits = keys, np.zeros(slots, np.int32), np.zeros(words, np.uint64)
        put_keys(self._seed, keys.data, keys.ends, self._table, self._bits)

    def find(self, columns: RecordColumns) -> NDArray[np.bool_]:
        """Return whether each row has one of the keys: bool, shape ``(rows,)``. A record without a key has none."""
        from brokerless.jobs.erase.key_set_kernels import find_keys

        found = np.zeros(columns.rows, np.uint8)
        done = find_keys(
            self._seed, self._keys.data, self._keys.ends, self._table, self._bits,
            columns.key_data, columns.key_ends, columns.key_null, found,
        )  # fmt: skip
        if done != columns.rows:
            raise ValueError(f"row {done} of the columns is not within their bytes")
        return found.view(np.bool_)


def given_keys(keys: Iterable[bytes | str]) -> KeySet:
    """Keys as Python code gives them; text is UTF-8. Raises :class:`UsageError` for one key instead of several, or what
    is neither bytes nor text."""

    def checked() -> Iterator[bytes]:
        for each in keys:
            if not isinstance(each, bytes | str):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise UsageError(f"{each!r} is no key; keys are bytes or text")
            yield each.encode() if isinstance(each, str) else each

    if isinstance(keys, bytes | bytearray | str):
        raise UsageError(f"keys={keys!r} is one key; give a list of them: keys=[{keys!r}]")
    return KeySet.of(checked())


def load_keys(path: str, keys_format: KeysFormat = "text") -> KeySet:
    """Return the keys in a file, one a line. ``text``: the line's bytes; ``base64``; ``json``: a string, or
    ``{"base64": "..."}``, as ``cat --json`` writes keys. Empty lines are passed over, and
    the mark with which some editors begin files of UTF-8.

    Raises :class:`UsageError` for a line that is none, a file in UTF-16, lines that end with CR alone; UnreadableError.
    """

    def parsed() -> Iterator[bytes]:
        for number, line in enumerate(_lines(path), 1):
            if not line:
                continue
            try:
                yield _key_of(line, keys_format)
            except (ValueError, binascii.Error, RecursionError) as error:
                raise UsageError(f"{path}, line {number}: this is no key as {keys_format}") from error

    keys = KeySet.of(parsed())
    if not len(keys):
        raise UsageError(f"{path}: there are no keys in this file, so nothing would be erased")
    return keys


def _lines(path: str) -> Iterator[bytes]:
    """The lines of a file, which is read block by block."""
    with Location(path).open() as file:
        rest, is_first = b"", True
        for position in range(0, file.size, _BLOCK):
            *whole, rest = (rest + file.read(position, min(_BLOCK, file.size - position)).tobytes()).split(b"\n")
            if whole and is_first:
                whole[0], is_first = _first_line(path, whole[0]), False
            if len(rest) > MOST_BYTES:
                raise UsageError(f"{path}: a line has more than {MOST_BYTES} bytes; this is no file of keys")
            yield from (line.removesuffix(b"\r") for line in whole)
        if is_first:
            rest = _first_line(path, rest)
            if b"\r" in rest[:-1]:
                text = "its lines end with CR alone; convert it, as by tr '\\r' '\\n', or write keys as base64"
                raise UsageError(f"{path}: {text}")
        yield rest.removesuffix(b"\r")


def _first_line(path: str, line: bytes) -> bytes:
    if line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        text = "this file is in UTF-16; convert it, as by iconv -f UTF-16 -t UTF-8, or write keys as base64"
        raise UsageError(f"{path}: {text}")
    return line.removeprefix(codecs.BOM_UTF8)


def _key_of(line: bytes, keys_format: KeysFormat) -> bytes:
    if keys_format == "text":
        return line
    if keys_format == "base64":
        return base64.b64decode(line, validate=True)
    value = json.loads(line)
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
        return base64.b64decode(value["base64"], validate=True)
    raise ValueError
