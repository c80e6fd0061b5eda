"""Checks one partition, before or after an erasure, against what a manifest claims of it."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.findings import Finding, Kind
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.format.columns import empty_columns
from brokerless.format.filter import BatchFilter, WholeBatches
from brokerless.format.read.batch_headers import checksums_match
from brokerless.format.read.decoder import Decoder, decode_whole
from brokerless.format.write.column_slices import slice_rows
from brokerless.jobs.erase.blanking import Blanking, RecordEdits, chosen_values, edits_of
from brokerless.jobs.erase.digests import UntouchedHash, digest_kept, digest_records
from brokerless.jobs.erase.selection import Matcher, Selection
from brokerless.jobs.erase.signed_manifest import DIRECTORY_FILES
from brokerless.jobs.manifest import FileHasher, ManifestFile, describe_file
from brokerless.jobs.prove.claims import DirectoryClaim, FileClaim, PartitionClaim
from brokerless.jobs.prove.search import ErasedAt, PatternSearch
from brokerless.log import names
from brokerless.log.segment import Chunk, scan
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.paths import is_local_within, join
from brokerless.progress import Done, Report
from brokerless.typed.blanking.edits import NotBlankedError
from brokerless.typed.blanking.values import RawHeader, ValueBlanker

_LOCKS = (names.LOCK, names.COMMIT_LOCK)
_EMPTY = digest_records(empty_columns())


@dataclass(frozen=True, slots=True)
class Check:
    """The settings of a partition's check."""

    is_source: bool
    """Whether it is checked as it was before the erasure."""
    blanking: Blanking | None
    """How values were blanked; None where records were removed."""
    selection: Selection | None = None
    """Which records were selected, if that is known."""
    search: PatternSearch | None = None
    """The search for bytes that must not be there."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    blanked: Mapping[int, bytes] | None = None
    """By offset, what values have to be in which fields were blanked, as :class:`Seen` has it of the source."""


@dataclass(slots=True)
class Seen:
    """A log as it was read: its touched batches and selected records."""

    digests: dict[int, str] = field(default_factory=dict[int, str])
    """The digest of each touched batch, by its number."""
    offsets: list[NDArray[np.int64]] = field(default_factory=list[NDArray[np.int64]])
    """The selected offsets, in arrays (int64)."""
    values: dict[bytes, ErasedAt] = field(default_factory=dict[bytes, ErasedAt])
    """The bytes that were erased, of a source."""
    blanked: dict[int, bytes] = field(default_factory=dict[int, bytes])
    """By offset, the SHA-256 of each value as it is with blanked fields, of a source."""
    blanker: ValueBlanker | None = None
    """Blanks the fields of the log's values; None where no fields were blanked."""


@dataclass(frozen=True, slots=True)
class ProveTask:
    """A partition to check, and where it is."""

    claim: PartitionClaim
    location: Location
    check: Check

    @property
    def size(self) -> int:
        """Bytes to read, as the manifest says."""
        files = self.claim.before if self.check.is_source else self.claim.after
        return sum(each.size for each in files)


@dataclass(frozen=True, slots=True)
class ProveTaskResult:
    """The findings, what was erased if this is a source (as in :class:`Seen`), and how many records were selected in a
    partition that was copied."""

    findings: tuple[Finding, ...]
    values: dict[bytes, ErasedAt]
    blanked: dict[int, bytes]
    selected: int = 0


def run_task(task: ProveTask, done: Done) -> ProveTaskResult:
    """Checks a partition, wherever it runs."""
    findings: list[Finding] = []
    if task.check.search is not None:
        task.check.search.counts.clear()  # as in a process of its own
    seen = check_partition(task.claim, task.location, task.check, report=findings.append, done=done)
    selected = sum(map(len, seen.offsets)) if task.claim.is_copied else 0
    return ProveTaskResult(tuple(findings), seen.values, seen.blanked, selected)


def check_partition(claim: PartitionClaim, location: Location, check: Check, report: Report, done: Done) -> Seen:
    """Reports all that is not as it is claimed of the partition in a directory, and returns what is in it. What cannot
    be opened is reported as well."""
    seen, path = Seen(), location.path
    if check.blanking is not None and check.blanking.fields:
        seen.blanker = check.blanking.blanker(claim.topic)
    files = claim.before if check.is_source else claim.after
    try:
        entries = {each.name: each for each in location.entries()}
        _compare_files(path, files, list(entries.values()), check=check, report=report)
        untouched = UntouchedHash()
        logs = sorted((each for each in files if _kind(each.name) == "log"), key=lambda each: each.name)
        for each in logs:
            if each.name not in entries:
                continue
            with entries[each.name].location.open() as file:
                hasher = FileHasher(file)
                for chunk in scan(file, report):
                    hasher.add(chunk)
                    if not checksums_match(chunk.buffer, chunk.batches).all():
                        report(_finding(Kind.CHECKSUM_MISMATCH, file.path, "the checksum of a batch does not match"))
                        return Seen()
                    _check_chunk(claim, chunk, file.path, check=check, report=report, untouched=untouched, seen=seen)
                    done(int(chunk.batches.sizes.sum()))
                _compare_file(each, hasher.finish(entries[each.name]), check, report)
    except UnreadableError as error:
        report(_finding(Kind.UNREADABLE, path, str(error)))
        return Seen()
    if claim.is_copied:
        _check_copied(claim, path, check, seen=seen, report=report)
    else:
        _compare(claim, path, check, untouched=untouched.hexdigest(), seen=seen, report=report)
    return seen


def _kind(name: str) -> str | None:
    file = names.parse_segment_file(name)
    return None if file is None or file.state != "live" else file.kind


def _finding(
    kind: Kind,
    path: str,
    text: str,
    offset: int | None = None,
    *,
    expected: str | None = None,
    found: str | None = None,
) -> Finding:
    return kind.at(path, text, severity="error", offset=offset, expected=expected, found=found)


def check_directory(
    claim: DirectoryClaim, location: Location, known: Collection[str], own: Collection[str], check: Check,
    report: Report,
) -> None:  # fmt: skip
    """Check the files beside partitions. What else is there is reported as well, but for ``known`` (names of
    directories), ``own`` (paths: the manifest itself), and locks, which are empty."""
    path = location.path
    try:
        entries = location.entries()
        _compare_files(
            path, claim.after, [each for each in entries if each.name in DIRECTORY_FILES], check=check, report=report
        )
    except UnreadableError as error:
        report(_finding(Kind.UNREADABLE, path, str(error)))
        return
    for each in entries:
        is_own = each.name in _LOCKS and not each.size and not each.is_directory
        is_known = each.is_directory and each.name in known
        if is_own or is_known or each.name in DIRECTORY_FILES or any(is_local_within(each.path, one) for one in own):
            continue
        what, kind = ("directory", Kind.DIRECTORY_UNKNOWN) if each.is_directory else ("file", Kind.FILE_UNKNOWN)
        text = f"not in the manifest: the erasure wrote no such {what}, and what is in it is not proved; move it away"
        report(_finding(kind, each.path, text))


def _compare_files(
    path: str, files: Sequence[FileClaim], found: Sequence[DirectoryEntry], check: Check, report: Report
) -> None:
    """All but logs, whose bytes are read for more than this."""
    claimed = {each.name: each for each in files}
    when = "before" if check.is_source else "after"
    entries = {each.name: each for each in found}
    for name, each in claimed.items():
        if name not in entries:
            report(
                _finding(Kind.FILE_MISSING, join(path, name), f"this file was there {when} the erasure, and is gone")
            )
            continue
        if _kind(name) != "log":
            _compare_file(each, describe_file(entries[name]), check, report)
    for name in entries.keys() - claimed.keys():
        if check.is_source and _is_no_file_of_kafkas(entries[name]):
            continue  # an erasure reads none; what they hold is compared with the scope
        text = f"not in the manifest: no such file was there {when} the erasure"
        report(_finding(Kind.FILE_UNKNOWN, join(path, name), text))
    if check.search is not None and not check.is_source:
        for name, entry in entries.items():
            if not entry.is_directory and _kind(name) != "log":
                with entry.location.open() as file:
                    check.search.look_in_file(file, report)


def _is_no_file_of_kafkas(entry: DirectoryEntry) -> bool:
    return entry.is_directory or not names.is_file_of_partition(entry.name)


def _compare_file(claim: FileClaim, now: ManifestFile, check: Check, report: Report) -> None:
    if (now.size, now.sha256) != (claim.size, claim.sha256):
        text = f"this file is not what it was {'before' if check.is_source else 'after'} the erasure"
        report(_finding(Kind.FILE_CHANGED, now.path, text, expected=claim.sha256, found=now.sha256))


def _check_chunk(
    claim: PartitionClaim,
    chunk: Chunk,
    path: str,
    check: Check,
    report: Report,
    untouched: UntouchedHash,
    seen: Seen,
) -> None:
    batches = chunk.batches.take(chunk.batches.last_offset >= claim.start_offset)
    numbers = claim.interval_of(batches.entry_offset)
    untouched.add(chunk.buffer, batches, numbers >= 0)
    rows = np.flatnonzero(numbers >= 0)
    if len(rows):
        reader = BatchFilter(check.max_batch_bytes)
        first = 0
        for whole in reader.read(chunk.buffer, batches.take(rows), chunk.base):
            part, first = rows[first : first + len(whole.batches)], first + len(whole.batches)
            for damage in whole.damages:
                report(_finding(damage.kind, path, damage.message, damage.base_offset))
            if not whole.damages:
                _check_touched(claim, numbers[part], whole, path=path, check=check, report=report, seen=seen)
    if check.selection is None and check.search is None:
        return
    decoder = Decoder(max_batch_bytes=check.max_batch_bytes)
    matcher = None if check.selection is None else Matcher(check.selection, claim.topic, claim.partition)
    for decoded in decode_whole(decoder, chunk.buffer, batches, chunk.base):
        if matcher is not None and (check.is_source or check.blanking is None or claim.is_copied):
            seen.offsets.append(decoded.columns.offset[: decoded.columns.rows][matcher.match(decoded)].copy())
        if check.search is not None and not check.is_source:
            selected = np.zeros(decoded.columns.rows, np.bool_)
            if check.blanking is not None and check.blanking.fields:
                selected = np.isin(decoded.columns.offset[: decoded.columns.rows], claim.selected_offsets)
            check.search.look_in_records(decoded.columns, selected, path, report)


def _check_touched(
    claim: PartitionClaim,
    numbers: NDArray[np.int64],
    whole: WholeBatches,
    path: str,
    check: Check,
    report: Report,
    seen: Seen,
) -> None:
    for at, number in enumerate(numbers.tolist()):
        start, end = int(whole.starts[at]), int(whole.starts[at + 1])
        if start == end:  # an empty batch, also one that keeps the place of messages that are gone
            continue
        columns = slice_rows(whole.columns, start, end)
        selected = np.isin(columns.offset, claim.touched[number].offsets)
        if check.blanking is not None and check.blanking.fields:
            edits = claim.touched[number].edits or ((),) * len(claim.touched[number].offsets)
            claimed = dict(zip(claim.touched[number].offsets.tolist(), edits, strict=True))
            for record in chosen_values(columns, selected):
                _check_blanked(
                    BlankedRecord(*record, claimed[record[0]]), claim.name, path, check=check, seen=seen, report=report
                )
        elif check.is_source:
            for offset, value, _ in chosen_values(columns, selected):
                seen.values |= {} if value is None else {value: ErasedAt(claim.name, offset, 0)}
        elif check.blanking is None and selected.any():
            offset = int(columns.offset[np.argmax(selected)])
            report(_finding(Kind.RECORD_PRESENT, path, "a record that was removed is there", offset))
        elif check.blanking is not None and not columns.value_null[: columns.rows][selected].all():
            offset = int(columns.offset[np.argmax(selected & (columns.value_null[: columns.rows] == 0))])
            report(_finding(Kind.VALUE_PRESENT, path, "a value that was blanked is there", offset))
        if number in seen.digests:
            report(
                _finding(
                    Kind.BATCH_TWICE, path, "two batches are in the place of one", claim.touched[number].base_offset
                )
            )
        seen.digests[number] = digest_kept(columns, selected, is_blanked=check.blanking is not None)


class BlankedRecord(NamedTuple):
    """A record of which fields were to be blanked, and the edits that the manifest claims of its value."""

    offset: int
    value: bytes | None
    headers: Sequence[RawHeader]
    claimed: RecordEdits


def _check_blanked(record: BlankedRecord, name: str, path: str, check: Check, seen: Seen, report: Report) -> None:
    """Collect the bytes that were erased of a value in a source; after the erasure, report fields that are not blank,
    and values of which anything else differs. ``name``: of the partition."""
    assert seen.blanker is not None
    offset, value = record.offset, record.value
    try:
        found = None if value is None else seen.blanker.blank(value, record.headers)
    except NotBlankedError as error:
        report(_finding(Kind.VALUE_NOT_DECODED, path, f"a value whose fields were blanked {error}", offset))
        return
    if check.is_source:
        if found is not None:
            for part in found.parts:
                seen.values.setdefault(part, ErasedAt(name, offset, max(0, found.source.find(part))))
            seen.blanked[offset] = hashlib.sha256(found.value).digest()
        if record.claimed != (() if found is None else edits_of(found)):
            text = "the manifest names other bytes of a value than those of the fields that were blanked"
            report(_finding(Kind.EDITS_DIFFER, path, text, offset))
    elif found is not None and found.edits:
        report(_finding(Kind.VALUE_PRESENT, path, "a field that was blanked is there", offset))
    elif not _has_edits(value, record.claimed):
        report(_finding(Kind.EDITS_DIFFER, path, "a value is not changed where the manifest says it", offset))
    elif check.blanked is not None:
        now = None if value is None else hashlib.sha256(value).digest()
        if check.blanked.get(offset) != now:
            text = "more of a value is changed than the fields that were blanked"
            report(_finding(Kind.RECORDS_DIFFER, path, text, offset))


def _has_edits(value: bytes | None, edits: RecordEdits) -> bool:
    """Return whether the new bytes of edits are where they have to be in a value."""
    return not edits or (value is not None and all(value[at : at + len(new) // 2].hex() == new for at, _, new in edits))


def _check_copied(claim: PartitionClaim, path: str, check: Check, seen: Seen, report: Report) -> None:
    """Report what an erasure that copied a partition unchanged did not do. Only Kafka's own topics are copied, and what
    is selected in one of them is left; in any other, no record may be selected."""
    if check.is_source:
        return
    before, after = (
        sorted((each.name, each.sha256) for each in files if _kind(each.name) == "log")
        for files in (claim.before, claim.after)
    )
    if after != before[len(before) - len(after) :] or (before and not after):
        report(
            _finding(Kind.COPY_DIFFERS, path, "this partition is said to be copied, but its segments are not the same")
        )
    selected = [offset for part in seen.offsets for offset in part.tolist()]
    if names.is_internal(claim.topic):
        if selected:
            records = f"{len(selected):,} selected record{'' if len(selected) == 1 else 's'}"
            text = f"{records} were left in this topic of Kafka's own, which was copied unchanged"
            report(Kind.RECORDS_LEFT.at(path, text, offset=selected[0]))
    elif check.selection is None:
        text = "this partition is said to be copied unchanged; without the keys, nothing is proved of it"
        report(_finding(Kind.COPIED_PARTITION, path, text))
    else:
        for offset in selected[:10]:
            text = "a record that is selected is in a partition that is said to be copied unchanged"
            report(_finding(Kind.RECORD_PRESENT, path, text, offset))


def _compare(claim: PartitionClaim, path: str, check: Check, untouched: str, seen: Seen, report: Report) -> None:
    if untouched != claim.untouched:
        text = "the batches that were not touched are not those of before"
        report(_finding(Kind.BATCHES_DIFFER, path, text, expected=claim.untouched or "", found=untouched))
    for number, each in enumerate(claim.touched):
        found = seen.digests.get(number, _EMPTY)
        if found != each.digest:
            text = "the other records of a touched batch are not those of before"
            report(_finding(Kind.RECORDS_DIFFER, path, text, each.base_offset, expected=each.digest, found=found))
    if check.selection is None:
        return
    claimed = {offset for each in claim.touched for offset in each.offsets.tolist()}
    found = {offset for part in seen.offsets for offset in part.tolist()}
    if check.is_source:
        for offset in sorted(found ^ claimed)[:10]:
            text = "was not erased" if offset in found else "was erased, but is not selected"
            report(_finding(Kind.SELECTION_DIFFERS, path, f"a record {text}", offset))
    elif check.blanking is None:
        for offset in sorted(found)[:10]:
            report(_finding(Kind.RECORD_PRESENT, path, "a record that is selected is there", offset))
