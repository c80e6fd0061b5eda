"""Reads a partition that is written again: its batches, converted; the end of the log; damage."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import DamageError, UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.format.convert import ConversionTotals, ConvertedBatches
from brokerless.format.read.batch_headers import Batches
from brokerless.jobs.manifest import FileHasher, ManifestFile, describe_file
from brokerless.kafka_names import Isolation
from brokerless.log import names
from brokerless.log.checkpoint.offset_checkpoints import recorded_offset
from brokerless.log.directory import PartitionPath
from brokerless.log.live_segments import OpenSegment, open_segments
from brokerless.log.offset_gaps import check_following, is_gap
from brokerless.log.offsets_once.batches import OffsetsOnce
from brokerless.log.offsets_once.findings import report_past_last
from brokerless.log.partition import transactions_of
from brokerless.log.producer.transactions import Transactions
from brokerless.log.ranges import EVERYTHING, from_log_start
from brokerless.log.seek import log_start_after_end
from brokerless.log.segment import check_checksums, damage_finding, scan
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.walk import check_ends, walk_part
from brokerless.progress import Done, Report


def files_that_are_read(source: PartitionPath) -> list[DirectoryEntry]:
    """Those of a partition that is converted."""
    return [segment.log for segment in source.segments] + _companions(source)


def _companions(source: PartitionPath) -> list[DirectoryEntry]:
    return [each for each in (source.leader_epoch_checkpoint, source.partition_metadata) if each is not None]


class BatchConverter(Protocol):
    """What makes other batches of those that are read, as :class:`brokerless.format.convert.Converter`."""

    @property
    def totals(self) -> ConversionTotals: ...

    def convert(self, buffer: NDArray[np.uint8], batches: Batches, base: int = 0) -> Iterator[ConvertedBatches]: ...

    def flush(self) -> Iterator[ConvertedBatches]: ...


class RewriteReader:
    """A partition that is read: where its log ends, its damage, and up to which offset compaction explains what is
    missing (``compacted_until``)."""

    def __init__(
        self,
        source: PartitionPath,
        isolation: Isolation,
        report: Report,
        *,
        is_hashed: bool = False,
        keeps_segments: bool = False,
    ) -> None:
        """Read a partition for a rewrite. ``is_hashed`` is for a job with a manifest. With ``keeps_segments``, no batch
        has records of two segments."""
        self.damages: list[Finding] = []
        self.end_offset = max((each.base_offset for each in source.segments), default=0)
        self.path = source.path
        self.compacted_until: int | None = None
        with suppress(UnreadableError):
            place = source.location, source.topic, source.partition
            self.compacted_until = recorded_offset(*place, names.CLEANER_CHECKPOINT)
        self._source, self._report, self._is_hashed = source, report, is_hashed
        self._keeps_segments = keeps_segments
        self._manifest_files: dict[str, ManifestFile] = {}
        self.hash_before: hashlib._Hash | None = None  # pyright: ignore[reportPrivateUsage]
        """Of a job with a manifest, the SHA-256 of the file before the chunk that was read last, if all is read."""
        self._first = EVERYTHING
        self._read_until: int | None = None
        self._transactions: Transactions | None = None
        if isolation == "read_committed":
            self._transactions = transactions_of(source)

    def report_finding(self, finding: Finding) -> None:
        if is_damage(finding):
            self.damages.append(finding)
        self._report(finding)

    def manifest_files(self) -> Iterator[ManifestFile]:
        """Yield the manifest's entries of all files that were read, if they are to be hashed and are not damaged."""
        if not self._is_hashed or self.damages:
            return
        yield from self._manifest_files.values()
        for entry in _companions(self._source):
            yield describe_file(entry)

    def buffers(self, converter: BatchConverter, done: Done) -> Iterator[NDArray[np.uint8]]:
        """Yield the buffers of :meth:`converted`, without headers."""
        return (each.buffer for each in self.converted(converter, done))

    def converted(self, converter: BatchConverter, done: Done) -> Iterator[ConvertedBatches]:
        """Yield what becomes of the partition's batches, in log order, up to the first damage, which is reported."""
        source = self._source
        self._first = from_log_start(source)
        if not self._begins():
            return
        self._read_until = next((each.base_offset for each in self._first.segments(source.segments)), None)
        for each in open_segments(source, self.report_finding, self._first):
            self._explain_gap(each)
            hashing = FileHasher(each.file) if self._is_hashed else None
            yield from self._of_file(each, converter, hashing, done)
            check_following(each, self.report_finding, self._first)
            if self.damages:
                return
            if hashing is not None:
                self._manifest_files[each.file.path] = hashing.finish(each.segment.log)
            if self._keeps_segments:
                yield from converter.flush()
        yield from converter.flush()

    def _explain_gap(self, opened: OpenSegment) -> None:
        """A gap before this segment that was not reported: in batches that are built again, nobody could see any more
        that compaction (or a deletion meanwhile) took these offsets."""
        before, base_offset = self._read_until, opened.segment.base_offset
        is_empty_end = opened.is_last and not opened.file.size
        if before is not None and is_gap(before, base_offset, self._first.start_offset) and not is_empty_end:
            self.compacted_until = max(base_offset, self.compacted_until or 0)
        self._read_until = max(base_offset, before or 0)

    def _begins(self) -> bool:
        """Return whether the log reaches its log start offset; first segments that are missing are reported."""
        finding = log_start_after_end(self._source)
        if finding is not None:
            self.report_finding(finding)
            return False
        check_ends(self._source, self.report_finding)
        return True

    def _of_file(
        self, opened: OpenSegment, converter: BatchConverter, hashing: FileHasher | None, done: Done
    ) -> Iterator[ConvertedBatches]:
        file = opened.file
        once = OffsetsOnce.of_segment(opened, self.report_finding, self.end_offset)
        for chunk in scan(file, self.report_finding, opened.start):
            if hashing is not None:
                self.hash_before = hashing.before(chunk.base) if self._first.is_everything else None
                hashing.add(chunk)
            valid = check_checksums(chunk, file.path, self.report_finding)
            report_past_last(chunk.take(valid), file.path, self.report_finding)
            if self.damages:
                return
            done(int(chunk.batches.sizes.sum()))
            chunk = once.take(chunk)
            if not len(chunk.batches):
                continue
            self._read_until = int(chunk.batches.end_of_records.max()) + 1
            self.end_offset = max(self.end_offset, self._read_until)
            chosen = self._chosen(chunk.batches, converter.totals)
            for converted in converter.convert(chunk.buffer, chosen, chunk.base) if len(chosen) else ():
                for damage in converted.damages:
                    self.report_finding(damage_finding(file.path, damage))
                if self.damages:
                    return
                yield converted
                del converted

    def _chosen(self, batches: Batches, totals: ConversionTotals) -> Batches:
        """Return the batches from the one on that has the log start offset, without what read_committed leaves out;
        that is counted as read."""
        if not self._first.is_everything:
            batches = batches.take(self._first.batches(batches))
        if self._transactions is None:
            return batches
        aborted = self._transactions.aborted(batches)
        stable = self._transactions.decided_until
        undecided = np.zeros(len(batches), np.bool_) if stable is None else batches.last_offset >= stable
        if not (aborted | undecided).any():
            return batches
        for name, rows in (("aborted", aborted & ~undecided), ("undecided", undecided)):
            left_out = batches.take(rows)
            records = int(np.where(left_out.is_legacy, 1, left_out.count).sum())
            totals.batches_in += len(left_out)
            totals.records_in += records
            totals.bytes_in += int(left_out.sizes.sum())
            if records:
                totals.lost[name] += records
        return batches.take(~(aborted | undecided))

    def look(self, totals: ConversionTotals, done: Done) -> None:
        """Reads all of it, yields nothing, and counts batches and records."""
        if not self._begins():
            return
        for opened in walk_part(self._source, self.report_finding):
            file = opened.file
            for chunk in scan(file, self.report_finding, opened.start):
                batches = chunk.batches
                check_checksums(chunk, file.path, self.report_finding)
                self.end_offset = max(self.end_offset, int(batches.end_of_records.max()) + 1)
                totals.batches_in += len(batches)
                totals.records_in += int(np.where(batches.is_legacy, 1, np.maximum(batches.count, 0)).sum())
                totals.bytes_in += int(batches.sizes.sum())
                done(int(batches.sizes.sum()))
        totals.batches_out, totals.records_out = totals.batches_in, totals.records_in
        totals.bytes_out = totals.bytes_in


def is_damage(finding: Finding) -> bool:
    """Return whether a finding keeps a partition from being written."""
    return finding.severity == "error" or finding.kind == Kind.TRUNCATED_BATCH


def raise_damage(finding: Finding) -> None:
    """A report that raises :class:`DamageError` for what keeps a partition from being written."""
    if is_damage(finding):
        raise DamageError(finding)
