"""Records which segments were verified, and what was found, so that no run does it again.

A run appends files to a directory of the tables' root while it verifies; the next one continues where it was killed.
At its end they become one file. What is read twice counts once: the newest entry of a path is the one that holds.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Generator, Iterable
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any, Literal
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from brokerless import arrow
from brokerless.errors import UnreadableError, UnwritableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.jobs.export.refusals import reason_of
from brokerless.jobs.pipeline.schemas import CHECKED
from brokerless.log.directory import PartitionPath, SegmentPaths
from brokerless.log.storage import file_tree, paths
from brokerless.log.storage.location import Location
from brokerless.log.storage.own_files import read_own
from brokerless.table_formats.export_state import Exported
from brokerless.text import readable
from brokerless.values import Value, WrongJsonError, from_json, to_json

PRIVATE = "_brokerless-pipeline"
"""The pipeline's own directory in the root of the tables. No topic's table has such a name, as that has no dash."""
_STATE = "state"
_RUN = "run.json"
_FILE = re.compile(r"verified-([0-9]{12})-[0-9a-f]{32}\.parquet")
_LIMIT = 1 << 30
"""Bytes of one file: some million segments."""


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
    """What was found at a path. ``kind``: ``segment``; ``partition``, for what concerns a whole directory; ``export``,
    for what only the export met; ``tried``, for what has nothing more for its table. ``version``: which state of the
    path this is."""

    kind: str
    path: str
    version: str
    runId: str  # noqa: N815 - a column's name
    topic: str | None
    partition: int | None
    firstOffset: int | None = None  # noqa: N815
    lastOffset: int | None = None  # noqa: N815
    hasTransactions: bool = False  # noqa: N815
    findings: tuple[Finding, ...] = ()
    ranges: tuple[DamagedRange, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        return self.kind, self.path


class _LedgerRun(Value, frozen=True, rename={"form": "as"}):
    """The format of the tables, and the ID of a run that is under way."""

    version: Literal[1]
    form: str
    running: str | None


def path_of(path: str) -> str:
    """A path as the ledger has it: right from everywhere, and as UTF-8 can hold it."""
    return readable(paths.full_path(path))


def version_of(segment: SegmentPaths) -> str:
    """Return what changes when a segment's log does."""
    log = segment.log
    return f"{log.size}/{log.modified}/{log.identity}"


def tried_version(partition: PartitionPath, exported: Exported) -> str:
    """Return what changes when an export of a partition may find more: its segments, or what the table has of it."""
    own = [str(exported), *(f"{each.log.name}/{version_of(each)}" for each in partition.segments)]
    return hashlib.sha256("\n".join(own).encode(errors="surrogatepass")).hexdigest()


class Ledger:
    """The entries of all runs, by kind and path."""

    def __init__(self, to: Location) -> None:
        self._root = to
        self._directory = to / PRIVATE / _STATE
        self._new: list[Checked] = []
        self._files: list[str] = []
        self.entries: dict[tuple[str, str], Checked] = {}
        self.is_changed = False
        """Whether there are other findings or ranges than before this run."""
        self.failure: Finding | None = None
        """Why this run cannot be recorded, if it cannot."""
        self._keys: dict[tuple[str | None, int | None], dict[tuple[str, str], None]] = {}

    def load(self) -> None:
        """Reads what earlier runs recorded. Raises :class:`UnreadableError` for a file that does not say it."""
        found = sorted(file_tree.find(self._directory))
        self._files = [name for name in found if _FILE.fullmatch(name)]
        for name in self._files:
            for row in arrow.rows(self._read(name)):
                self._take(_checked(row))

    def interrupted(self, form: str) -> str | None:
        """The ID of the run before, if that did not end. Raises :class:`UsageError` where the tables are of another
        format."""
        if file_tree.exists(self._directory / _RUN):
            own = self._directory / _RUN
            try:
                before = from_json(read_own(own, 1 << 16), _LedgerRun)
            except WrongJsonError as error:
                text = "this does not say which format the tables have; remove it if you know that"
                raise UnreadableError(own.path, f"{text} ({error})") from error
            if before.form != form:
                raise UsageError(
                    f"{self._root}: the tables here are {before.form}, not {form}; go on so, or write elsewhere"
                )
            return before.running
        return None

    @contextmanager
    def recording(self) -> Generator[None]:
        """Makes the first error of what is written within the finding :attr:`failure`, so that topics are exported all
        the same."""
        try:
            yield
        except (UnwritableError, OSError) as error:
            text = f"this run is not recorded, so that the next one verifies and reports again: {reason_of(error)}"
            own = self._root / PRIVATE
            self.failure = self.failure or Kind.RUN_NOT_RECORDED.at(own.path, text)

    def begin(self, run_id: str, form: str) -> None:
        """Records that a run is under way."""
        self._save_run(run_id, form)

    def end(self, form: str) -> None:
        """Records that the run came to its end; one that was not recorded is continued by the next one."""
        if self.failure is None:
            self._save_run(None, form)

    def _save_run(self, run_id: str | None, form: str) -> None:
        with self.recording():
            file_tree.write(self._directory / _RUN, to_json(_LedgerRun(1, form, run_id)))

    def get(self, kind: str, path: str) -> Checked | None:
        return self.entries.get((kind, path_of(path)))

    def is_new(self, segment: SegmentPaths) -> bool:
        """Return whether this state of a segment was not verified yet."""
        known = self.get("segment", segment.log.path)
        return known is None or known.version != version_of(segment)

    def was_tried(self, partition: PartitionPath, exported: Exported) -> bool:
        """Return whether a run exported all of this state of a partition that the table, in its state, can get."""
        known = self.get("tried", partition.path)
        return known is not None and known.version == tried_version(partition, exported)

    def add_tried(self, partition: PartitionPath, exported: Exported, run_id: str) -> None:
        """Records that."""
        if not self.was_tried(partition, exported):
            path, version = path_of(partition.path), tried_version(partition, exported)
            self.add(
                Checked("tried", path, version, runId=run_id, topic=partition.topic, partition=partition.partition)
            )

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
        """All that is known of a partition, of all of its copies, also of those that are gone."""
        keys = self._keys.get((topic, partition), ())
        return [self.entries[key] for key in keys if key in self.entries]

    def flush(self) -> None:
        """Makes durable what was added since."""
        if self._new:
            with self.recording():
                self._write(self._new)
                self._new = []

    def consolidate(self, roots: Collection[str], listed: Collection[str]) -> None:
        """All in one file, if there are several. Of segments below ``roots`` that are not ``listed`` any more, only
        what was found stays."""
        self.flush()
        there, below = {path_of(each) for each in listed}, [path_of(each) for each in roots]
        gone = [
            key
            for key, each in self.entries.items()
            if each.kind == "segment"
            and each.path not in there
            and not (each.findings or each.ranges)
            and any(each.path.startswith(root) for root in below)
        ]
        if len(self._files) < 2 and len(gone) * 2 < len(self.entries):
            return
        for key in gone:
            del self.entries[key]
        before = self._files[:]
        with self.recording():
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
            data = read_own(own, _LIMIT)
            return pq.ParquetFile(pa.BufferReader(data)).read().cast(CHECKED)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, OSError, ValueError, KeyError) as error:
            text = "this does not say what was verified; remove it, and the pipeline verifies that again"
            raise UnreadableError(own.path, f"{text} ({error})") from error

    def _write(self, entries: Iterable[Checked]) -> None:
        last = _FILE.fullmatch(self._files[-1]) if self._files else None
        name = f"verified-{1 + (0 if last is None else int(last[1])):012d}-{uuid4().hex}.parquet"
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist([_row(each) for each in entries], CHECKED), sink, compression="zstd")
        file_tree.write(self._directory / name, sink.getvalue().to_pybytes())
        self._files.append(name)


def _row(checked: Checked) -> dict[str, Any]:
    findings = [{name: _text(value) for name, value in each.as_dict().items()} for each in checked.findings]
    ranges = [{name: _text(value) for name, value in asdict(each).items()} for each in checked.ranges]
    own = {name: getattr(checked, name) for name in CHECKED.names}
    return own | {"path": checked.path, "findings": findings, "ranges": ranges}


def _text(value: Any) -> Any:
    return readable(value) if isinstance(value, str) else value


def _checked(row: dict[str, Any]) -> Checked:
    of_row: dict[str, Any] = dict(row)
    of_row["findings"] = tuple(Finding(**each) for each in row["findings"])
    of_row["ranges"] = tuple(DamagedRange(**each) for each in row["ranges"])
    return Checked(**of_row)
