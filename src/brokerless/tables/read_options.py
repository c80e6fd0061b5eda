"""Which records are read, and how: one value from the command line and from Python down to the reader."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import TYPE_CHECKING

import pyarrow as pa

from brokerless.clock import Time, milliseconds
from brokerless.errors import UsageError
from brokerless.kafka_names import Isolation, check_isolation
from brokerless.log.ranges import EVERYTHING, Range
from brokerless.ordered_threads import processors
from brokerless.progress import Done, ignore
from brokerless.schemas import RECORDS

if TYPE_CHECKING:
    from brokerless.progress import Report
    from brokerless.tables.record_filter import RecordFilter

_MANY_BYTES, _MANY_RECORDS = 32 << 20, 100_000
"""What there has to be to read for threads to be started, unless they are requested."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """Options by which records are read; :meth:`brokerless.Log.records` says what each of them means.

    While records are read, :class:`DamageError` is raised for the first error, or ``on_damage`` is called, and
    :class:`UnreadableError` for a file that the system does not read.
    """

    columns: Sequence[str] | None = None
    range: Range = EVERYTHING
    """Offsets, and timestamps in ms."""
    isolation: Isolation = "read_uncommitted"
    control: bool = False
    filter: RecordFilter | None = None
    limit: int | None = None
    max_batch_bytes: int | None = None
    on_damage: Report | None = None
    done: Done = ignore
    jobs: int | None = None

    def schema(self) -> pa.Schema:
        """Return the schema of the columns. Raises :class:`UsageError` for an unknown one, and for any other
        option that is none."""
        from brokerless.tables.record_batches import project

        check_isolation(self.isolation)
        if (whole_number("limit", self.limit) or 0) < 0:
            raise UsageError(f"limit: {self.limit} is not a number of records")
        check_bound(self.max_batch_bytes)
        if not callable(self.done):
            raise UsageError(f"done: {self.done!r} is no function that takes numbers of bytes")
        if self.jobs is not None and (not isinstance(self.jobs, Integral) or self.jobs < 1):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise UsageError(f"jobs: {self.jobs!r} is not a number of threads; 1 is for none beside the caller's")
        if self.filter is not None:
            _check_filter(self.filter)
        return project(RECORDS, self.columns)

    def threads(self, size: int) -> int:
        """Return how many threads decode ``size`` bytes of log."""
        is_much = size >= _MANY_BYTES and (self.limit is None or self.limit >= _MANY_RECORDS)
        return self.jobs or (processors() if is_much else 1)


def _check_filter(given: object) -> None:
    from brokerless.tables.record_filter import RecordFilter

    if isinstance(given, RecordFilter):
        return
    text = f"filter: {given!r} is no brokerless.RecordFilter"
    if isinstance(given, str):
        raise UsageError(f"{text}; for a condition of SQL, write filter=brokerless.RecordFilter(where={given!r})")
    raise UsageError(f"{text}, which has keys, key_regex, grep, header or where; dataset() takes Arrow's expressions")


def whole_number(name: str, value: object) -> int | None:
    """Return the number that a caller gave for ``name``, None for none. Raises :class:`UsageError` for what is none,
    or not whole."""
    if value is None:
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    except TypeError as error:
        raise UsageError(f"{name}: {value!r} is not a whole number") from error


def check_bound(max_batch_bytes: object) -> int | None:
    """Return what one batch may inflate to, in bytes, as it was given. Raises :class:`UsageError` for no number above
    0."""
    found = whole_number("max_batch_bytes", max_batch_bytes)
    if found is not None and found < 1:
        raise UsageError(f"max_batch_bytes: {found} is no number of bytes above 0")
    return found


def bound(max_batch_bytes: int | None) -> int:
    """Return what one batch may inflate to, in bytes: as requested, or 128 MiB. Raises :class:`UsageError`."""
    from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES

    return check_bound(max_batch_bytes) or DEFAULT_MAX_BATCH_BYTES


def range_of(
    start_offset: int | None,
    end_offset: int | None,
    start_timestamp: Time | None,
    end_timestamp: Time | None,
    *,
    prune: bool = True,
) -> Range:
    """Return a range as callers give it; one that ends before it starts has no record. Raises :class:`UsageError` for
    what is no offset or no time."""
    first, end = whole_number("start_offset", start_offset), whole_number("end_offset", end_offset)
    return Range(first, end, milliseconds(start_timestamp), milliseconds(end_timestamp), prune=prune)
