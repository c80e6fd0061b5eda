"""Records the runs of a pipeline: which one is under way, and what each copy of a partition had for its table."""

from __future__ import annotations

import hashlib
from collections.abc import Generator
from contextlib import contextmanager
from typing import Literal

from brokerless import clock
from brokerless.errors import UnwritableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.jobs.export.refusals import reason_of
from brokerless.jobs.ledger import Checked, Ledger, path_of, version_of
from brokerless.log.directory import PartitionPath
from brokerless.log.own_file import OwnFile
from brokerless.log.storage.location import Location
from brokerless.table_formats.export_state import Exported
from brokerless.values import Value

PRIVATE = "_brokerless-pipeline"
"""The pipeline's own directory in the root of the tables. No topic's table has such a name, as that has no dash."""
_STATE = "state"
_RUN = "run.json"


class _PipelineState(Value, frozen=True, rename={"form": "as"}):
    """The format of the tables, and the ID of a run that is under way."""

    version: Literal[1]
    form: str
    running: str | None


_OF_RUNS = OwnFile(
    _PipelineState, "the record of a pipeline's runs", "remove it if you know which format the tables have", 1 << 16
)


class Recording:
    """A pipeline's records in the root of its tables, ``to``."""

    def __init__(self, to: Location) -> None:
        self._root = to
        self._file = to / PRIVATE / _STATE / _RUN
        self.ledger = Ledger(to / PRIVATE / _STATE, self.recording)
        """The ledger of what was verified."""
        self.failure: Finding | None = None
        """Why this run cannot be recorded, if it cannot."""

    def interrupted(self, form: str) -> str | None:
        """Return the ID of the run before, if that did not end. Raises :class:`UsageError` where the tables are of
        another format."""
        before = _OF_RUNS.find(self._file)
        if before is None:
            return None
        if before.form != form:
            raise UsageError(
                f"{self._root}: the tables here are {before.form}, not {form}; go on so, or write elsewhere"
            )
        return before.running

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
        self._save(run_id, form)

    def end(self, form: str) -> None:
        """Records that the run came to its end; one that was not recorded is continued by the next one."""
        if self.failure is None:
            self._save(None, form)

    def _save(self, run_id: str | None, form: str) -> None:
        with self.recording():
            _OF_RUNS.save(self._file, _PipelineState(1, form, run_id))


def was_tried(ledger: Ledger, partition: PartitionPath, exported: Exported) -> bool:
    """Return whether a run exported all of this state of a partition that the table, in its state, can get."""
    known = ledger.get("tried", partition.path)
    return known is not None and known.version == _tried_version(partition, exported)


def add_tried(ledger: Ledger, partition: PartitionPath, exported: Exported, run_id: str) -> None:
    """Records that."""
    if not was_tried(ledger, partition, exported):
        path, version = path_of(partition.path), _tried_version(partition, exported)
        place = partition.topic, partition.partition
        ledger.add(Checked("tried", path, version, clock.now(), run_id, *place))


def _tried_version(partition: PartitionPath, exported: Exported) -> str:
    """Return what changes when an export of a partition may find more: its segments, or what the table has of it."""
    own = [str(exported), *(f"{each.log.name}/{version_of(each)}" for each in partition.segments)]
    return hashlib.sha256("\n".join(own).encode(errors="surrogatepass")).hexdigest()
