"""Redacts records: keys, values and header values become a length and a keyed hash.

Equal bytes get equal hashes as long as the key is the same, so that output which may be shared still shows which
records belong together. The key is what keeps short or guessable contents from being found by hashing guesses; a new
one for each run makes the hashes of two runs incomparable. Header keys are names, and stay.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import blake2b

import pyarrow as pa

from brokerless import arrow
from brokerless.arrow import Column

WriteRedacted = Callable[[int, str], bytes]
"""How a redacted value is written, from its length in bytes and its hash."""

HASH_BYTES = 6


def redact(batch: pa.RecordBatch, key: bytes, form: WriteRedacted) -> pa.RecordBatch:
    """Return the records with every key, value and header value replaced; null stays null.

    ``key``: at most 64 bytes, secret and random.
    """
    for index, name in enumerate(batch.schema.names):
        column: Column = batch.column(index)
        if name in ("key", "value"):
            batch = batch.set_column(index, batch.schema.field(index), _bytes(column, key, form))
        elif name == "headers":
            batch = batch.set_column(index, batch.schema.field(index), _headers(column, key, form))
    return batch


def redact_key(data: bytes | None, key: bytes) -> bytes | None:
    """Return a record's key as its length and hash, as text; None stays."""
    return None if data is None else as_text(len(data), _hash(data, key))


def as_json(length: int, digest: str) -> bytes:
    return b'{"redacted":%d,"hash":"%s"}' % (length, digest.encode())


def as_text(length: int, digest: str) -> bytes:
    return b"<%d bytes, %s>" % (length, digest.encode())


def _headers(column: Column, key: bytes, form: WriteRedacted) -> Column:
    ends = arrow.ends(column)
    headers = column.values.slice(ends[0], ends[-1] - ends[0])
    values = _bytes(headers.field(1), key, form)
    pairs = pa.StructArray.from_arrays([headers.field(0), values], fields=list(column.type.value_type))
    return arrow.column_of(column.type, len(column), [None, ends - ends[0]], [pairs])


def _bytes(column: Column, key: bytes, form: WriteRedacted) -> Column:
    ends, data = arrow.ends(column).tolist(), arrow.data(column).data
    redacted: list[bytes | None] = []
    for start, end, valid in zip(ends, ends[1:], arrow.is_valid(column), strict=False):
        redacted.append(form(end - start, _hash(data[start:end], key)) if valid else None)
    return arrow.column_of_values(redacted, pa.binary())


def _hash(data: bytes | memoryview, key: bytes) -> str:
    return blake2b(data, digest_size=HASH_BYTES, key=key).hexdigest()
