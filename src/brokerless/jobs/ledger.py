"""Records what was verified when, and what was found, so that no run does it again, and runs take turns.

A ledger is a directory of Parquet files, never in a log directory: ``verify --state`` has one, ``diff --replicas
--state``, and a pipeline in the root of its tables. A run appends files while it works; one that is killed has done
what is in them. At its end what it knows becomes one file. What is read twice counts once: of entries of a path, the
newest holds. So several runs may have one ledger at a time; what two verify at once is verified twice, and that is all.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pyarrow as pa

from brokerless import arrow, clock
from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.log.directory import SegmentPaths
from brokerless.log.own_file import dump_table, parse_table
from brokerless.log.storage import file_tree, paths
from brokerless.log.storage.guarded_files import read_own
from brokerless.log.storage.location import Location
from brokerless.text import readable

_FILE = re.compile(r"verified-([0-9]{12})-[0-9a-f]{32}\.parquet")
_LIMIT = 1 << 30
"""Bytes of one file: some million segments."""
_TRIES = 20
"""How often the files are listed again, as other runs make one of theirs meanwhile."""

PLACE = [pa.field("topic", pa.string()), pa.field("partition", pa.int32())]
FINDING = [
    pa.field("severity", pa.string(), nullable=False),
    pa.field("kind", pa.string(), nullable=False),
    pa.field("file", pa.string(), nullable=False),
    pa.field("position", pa.int64()),
    pa.field("offset", pa.int64()),
    pa.field("message", pa.string(), nullable=False),
    pa.field("expected", pa.string()),
    pa.field("found", pa.string()),
]
RANGE = [
    pa.field("file", pa.string(), nullable=False),
    pa.field("position", pa.int64()),
    pa.field("sizeInBytes", pa.int64(), nullable=False),
    pa.field("firstOffset", pa.int64()),
    pa.field("lastOffset", pa.int64()),
    pa.field("kind", pa.string(), nullable=False),
    pa.field("message", pa.string(), nullable=False),
]
CHECKED = pa.schema(
    [
        pa.field("kind", pa.string(), nullable=False),
        pa.field("path", pa.string(), nullable=False),
        pa.field("version", pa.string(), nullable=False),
        pa.field("verified", pa.timestamp("ms", tz="UTC"), nullable=False),
        pa.field("runId", pa.string(), nullable=False),
        *PLACE,
        pa.field("firstOffset", pa.int64()),
        pa.field("lastOffset", pa.int64()),
        pa.field("hasTransactions", pa.bool_(), nullable=False),
        pa.field("findings", pa.list_(pa.struct([*FINDING, pa.field("case", pa.string())])), nullable=False),
        pa.field("ranges", pa.list_(pa.struct(RANGE))),
    ]
)
"""A row for each path that was verified (:class:`Checked`). ``ranges`` is null where nobody looked for them."""


@dataclass(frozen=True, slots=True)
class DamagedRange:
    """Bytes of a file that are in no intact batch, with the offsets that were there; see
    :data:`brokerless.jobs.pipeline.schemas.DAMAGED`."""

    file: str
    position: int | None
    sizeInBytes: int  # noqa: N815 - a column's name
    firstOffset: int | None  # noqa: N815
    lastOffset: int | None  # noqa: N815
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Checked:
    """An entry of the ledger: what was found at a path."""

    kind: str
    """``segment``; ``partition``, for what concerns a whole directory; ``export``, for what only the export of a
    pipeline met; ``tried``, for what has nothing more for its table; ``replicas``, of which ``version`` says whether
    they were the same; ``object``, for what a backup stores."""
    path: str
    version: str
    """Which state of the path this is."""
    verified: int
    """When it was verified (ms since the epoch)."""
    runId: str  # noqa: N815 - a column's name
    """The run that verified it."""
    topic: str | None
    partition: int | None
    firstOffset: int | None = None  # noqa: N815
    lastOffset: int | None = None  # noqa: N815
    hasTransactions: bool = False  # noqa: N815
    findings: tuple[Finding, ...] = ()
    ranges: tuple[DamagedRange, ...] = ()
    has_ranges: bool = True
    """Whether somebody looked for damaged ranges."""

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.path

    @property
    def has_errors(self) -> bool:
        return any(each.severity == "error" for each in self.findings)


def path_of(path: str) -> str:
    """Return a path as the ledger has it: right from everywhere, and as UTF-8 can hold it."""
    return readable(paths.full_path(path))


def version_of(segment: SegmentPaths) -> str:
    """Return what changes when a segment's log does."""
    log = segment.log
    return f"{log.size}/{log.modified}/{log.identity}"


def run_id_of(started_ms: int) -> str:
    """Return the ID of a run that began then (ms since the epoch)."""
    stamp = datetime.fromtimestamp(started_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S")
    return f"{stamp}.{started_ms % 1000:03d}Z-{uuid4().hex[:8]}"


class Ledger:
    """The entries of all runs, by kind and path. Files are written within ``guard``, for a run that goes on where they
    cannot be written; else :meth:`flush` and :meth:`consolidate` raise :class:`UnwritableError`."""

    def __init__(self, directory: Location, guard: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self._directory = directory
        self._guard = guard
        self._new: list[Checked] = []
        self._files: list[str] = []
        self.entries: dict[tuple[str, str], Checked] = {}
        self.is_changed = False
        """Whether there are other findings or ranges than before this run."""
        self._keys: dict[tuple[str | None, int | None], dict[tuple[str, str], None]] = {}

    def load(self) -> None:
        """Reads what earlier runs recorded. Raises :class:`UnreadableError` for a file that does not say it."""
        for left in reversed(range(_TRIES)):
            self._files = sorted(name for name in file_tree.find(self._directory) if _FILE.fullmatch(name))
            for name in self._files:
                try:
                    table = self._read(name)
                except UnreadableError:
                    if left and not file_tree.exists(self._directory / name):
                        break  # another run has made one file of it and others
                    raise
                self._load(table)
            else:
                return

    def _load(self, table: pa.Table) -> None:
        now = clock.now()
        for row in arrow.rows(table):
            checked = _checked(row)
            if checked.verified > now:  # by a clock that was wrong: nothing may wait until then
                checked = replace(checked, verified=0)
            before = self.entries.get(checked.key)
            if before is None or before.verified <= checked.verified:
                self._take(checked)

    def get(self, kind: str, path: str) -> Checked | None:
        return self.entries.get((kind, path_of(path)))

    def verified(self, segment: SegmentPaths) -> Checked | None:
        """Return what was found in a segment; None where it was not verified in the state that it has now."""
        known = self.get("segment", segment.log.path)
        return None if known is None or known.version != version_of(segment) else known

    def add(self, checked: Checked) -> None:
        before = self.entries.get(checked.key)
        known = ((), ()) if before is None else (before.findings, before.ranges)
        self.is_changed |= known != (checked.findings, checked.ranges)
        self._take(checked)
        self._new.append(checked)

    @property
    def topics(self) -> set[str]:
        """All topics of which something is known, also of those that are gone."""
        return {each.topic for each in self.entries.values() if each.topic is not None}

    @property
    def has_ranges(self) -> bool:
        """Whether any damaged range is known."""
        return any(each.ranges for each in self.entries.values())

    def of_partition(self, topic: str | None, partition: int | None) -> list[Checked]:
        """Return all that is known of a partition, of all of its copies, also of those that are gone."""
        keys = self._keys.get((topic, partition), ())
        return [self.entries[key] for key in keys if key in self.entries]

    def flush(self) -> None:
        """Makes durable what was added since."""
        if self._new:
            with self._guard():
                self._write(self._new)
                self._new = []

    def consolidate(self, roots: Collection[str], listed: Collection[str], kind: str = "segment") -> None:
        """All in one file, if there are several. Of entries of a kind below ``roots`` that are not ``listed`` any more,
        only what was found stays."""
        self.flush()
        there, below = {path_of(each) for each in listed}, tuple(paths.join(path_of(each), "") for each in roots)
        gone = [
            key
            for key, each in self.entries.items()
            if each.kind == kind
            and each.path not in there
            and not (each.findings or each.ranges)
            and each.path.startswith(below)
        ]
        if len(self._files) < 2 and len(gone) * 2 <= len(self.entries):
            return
        for key in gone:
            del self.entries[key]
        before = self._files[:]
        with self._guard():
            self._write(self.entries.values())
            for name in before:
                file_tree.remove(self._directory, name)
            self._files = self._files[len(before) :]

    def _take(self, checked: Checked) -> None:
        self.entries[checked.key] = checked
        self._keys.setdefault((checked.topic, checked.partition), {})[checked.key] = None

    def _read(self, name: str) -> pa.Table:
        own = self._directory / name
        try:
            return parse_table(read_own(own, _LIMIT), CHECKED)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError, KeyError) as error:
            text = "this does not say what was verified; remove it, and that is verified again"
            raise UnreadableError(own.path, f"{text} ({error})") from error

    def _write(self, entries: Iterable[Checked]) -> None:
        last = _FILE.fullmatch(self._files[-1]) if self._files else None
        name = f"verified-{1 + (0 if last is None else int(last[1])):012d}-{uuid4().hex}.parquet"
        table = pa.Table.from_pylist([_row(each) for each in entries], CHECKED)
        file_tree.write(self._directory / name, dump_table(table))
        self._files.append(name)


def _row(checked: Checked) -> dict[str, Any]:
    findings = [_texts({**each.as_dict(), "case": each.case}) for each in checked.findings]
    ranges = [_texts(asdict(each)) for each in checked.ranges] if checked.has_ranges else None
    own = {name: getattr(checked, name) for name in CHECKED.names}
    return own | {"findings": findings, "ranges": ranges}


def _texts(row: dict[str, Any]) -> dict[str, Any]:
    return {name: readable(value) if isinstance(value, str) else value for name, value in row.items()}


def _checked(row: dict[str, Any]) -> Checked:
    found, ranges = row["findings"], row["ranges"]
    of_row: dict[str, Any] = row | {"has_ranges": ranges is not None}
    of_row["findings"] = tuple(Finding(**each) for each in found)
    of_row["ranges"] = tuple(DamagedRange(**each) for each in ranges or ())
    return Checked(**of_row)
