"""Writes the manifest of an erasure, and continues that of a run that was stopped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from brokerless.errors import UnreadableError
from brokerless.jobs.erase.copies import Copy
from brokerless.jobs.erase.field_counts import FieldCount, TopicField, by_topic
from brokerless.jobs.erase.job import ErasedPartition, Erasure
from brokerless.jobs.erase.signed_manifest import (
    ManifestEntries,
    RecordedRequest,
    check_path,
    describe_selection,
    directory_entry,
    finished_partitions,
    load_manifest,
    partition_entry,
    recorded_schemas,
    unwritten_entry,
    unwritten_partitions,
    write_manifest,
)
from brokerless.jobs.signatures import load_private_key
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import full_path
from brokerless.typed.blanking.schemas import RecordedSchemas, join
from brokerless.values import LenientValue, WrongJsonError, from_members

if TYPE_CHECKING:
    from collections.abc import Mapping


class _Finished(LenientValue, frozen=True):
    """A partition that an earlier run committed, as far as it is needed."""

    topic: str
    source: str
    fields: tuple[FieldCount, ...] = ()


class ManifestWriter:
    """The manifest of one run."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        sources: Sequence[str],
        to: Location,
        erasure: Erasure,
        sign_key: str | os.PathLike[str] | None = None,
    ) -> None:
        """Raises :class:`UsageError` where no manifest can be written, for that of another erasure, and for a key that
        is not Ed25519; UnreadableError."""
        self.path = os.fspath(path)
        self._key = None if sign_key is None else load_private_key(os.fspath(sign_key))
        self._request = RecordedRequest(tuple(map(full_path, sources)), full_path(to.path), erasure)
        check_path(self.path, sources)
        self.finished: Mapping[str, dict[str, Any]] = finished_partitions(self.path, self._request, to)
        """What an earlier run of the same request committed, as its manifest describes it, by the path of the
        target."""
        self._partitions = list(self.finished.values())
        self._unwritten = unwritten_partitions(self.path)
        self._copies: list[dict[str, Any]] = []
        self._schemas = RecordedSchemas()
        if self.finished:
            self._schemas = recorded_schemas(load_manifest(self.path))
        self._selection: dict[str, Any] = {}

    def finished_fields(self) -> list[tuple[str, str, Sequence[FieldCount]]]:
        """Return the topic, the source's path and the counts of fields of each partition that an earlier run committed.
        Raises UnreadableError."""
        try:
            found = [from_members(each, _Finished) for each in self.finished.values()]
            return [(each.topic, each.source, each.fields) for each in found]
        except WrongJsonError as error:
            raise UnreadableError(self.path, f"this is not the manifest of an erasure ({error})") from error

    def write(self, partitions: Sequence[ErasedPartition], copies: Sequence[Copy]) -> None:
        """Writes it with these partitions, which are about to be committed unless there is damage, and those that were
        before; what an earlier run could not write stays in it until a run does. Raises UnwritableError."""
        self._partitions = [
            *self.finished.values(),
            *(partition_entry(each) for each in partitions if not each.damages),
        ]
        self._unwritten |= {each["target"]: each for each in map(unwritten_entry, partitions) if each is not None}
        self._schemas = join([self._schemas, *(each.schemas for each in partitions)])
        for each in self._partitions:
            self._unwritten.pop(each["target"], None)
        self._partitions.sort(key=lambda each: (each["target"].rpartition("/")[0], each["topic"], each["partition"]))
        self._copies = [each.as_dict() for each in copies]
        self._write([])

    def complete(self, directories: Sequence[Destination], copies: Sequence[Copy]) -> None:
        """Adds the files of the log directories that were written, when all is committed: without them, a manifest is
        that of a run that was stopped. Nothing happens where no partition was written. Raises UnwritableError."""
        if self._partitions:
            self._copies = [each.as_dict() for each in copies]
            self._write([directory_entry(each) for each in directories])

    def _write(self, directories: Sequence[Mapping[str, Any]]) -> None:
        self._selection = self._selection or describe_selection(self._request.erasure.selection)
        not_written = list(self._unwritten.values())
        entries = ManifestEntries(
            self._selection,
            self._partitions,
            not_written,
            directories=directories,
            copies=self._copies,
            schemas=self._schemas.as_list(),
        )
        write_manifest(self.path, self._request, entries, self._key)


def topic_fields(results: Sequence[ErasedPartition], writer: ManifestWriter | None) -> list[TopicField]:
    """Counts of the fields that were to be blanked, by topic: of what was written now, and of what earlier runs
    committed. ``writer``: None without a manifest. Raises UnreadableError for one that has no counts."""
    earlier = [] if writer is None else writer.finished_fields()
    now = [(each.task.topic, each.task.source.path, each.totals.fields) for each in results if not each.damages]
    return list(by_topic([*earlier, *now]))
