"""Checks the manifest of an erasure in a backup, and that no object of the bucket has what was erased."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

import numpy as np

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.format.read.decoder import Decoder, decode_whole
from brokerless.jobs.backup_erasure.file_search import search_files
from brokerless.jobs.backup_erasure.record import BackupClaim, ClaimedSegment, is_of_backup, parse_claim
from brokerless.jobs.check.snapshots import load_with_segments
from brokerless.jobs.erase.selection import Matcher, Selection
from brokerless.jobs.erase.signed_manifest import SignedManifest, load_manifest
from brokerless.jobs.forget.prune import GRACE_MS
from brokerless.jobs.prove.job import (
    Proof,
    Proving,
    check_selection,
    check_signature,
    not_finished,
    not_written,
)
from brokerless.jobs.prove.job import prove as prove_logs
from brokerless.jobs.prove.scope import selected_outside
from brokerless.jobs.prove.search import PatternSearch
from brokerless.jobs.run.job import in_order, run
from brokerless.jobs.run.types import ALONE, RunOptions
from brokerless.log import names
from brokerless.log.backups.place import BackupPlace
from brokerless.log.segment import check_checksums, scan
from brokerless.log.storage.atomic import SUFFIX
from brokerless.log.storage.files import File
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.tiered.decryption import BackupKeys, KeyPairs
from brokerless.log.tiered.detection import backup_at
from brokerless.log.tiered.listing.encrypted_backup import data_keys
from brokerless.log.tiered.listing.stored_objects import object_differs, segment_objects
from brokerless.log.tiered.manifest import LIMIT, parse_manifest
from brokerless.log.tiered.object_names import ObjectKind, parse_partition
from brokerless.log.tiered.segment_log import open_log
from brokerless.log.tiered.segments import RemoteSegment
from brokerless.progress import Done, Report, ignore
from brokerless.text import count_of
from brokerless.values import WrongJsonError

_Listed = Mapping[tuple[str, int, str], Mapping[ObjectKind, DirectoryEntry]]


@dataclass(slots=True)
class BackupProof(Proof):
    """The proof of an erasure in a backup: what was found of its manifest."""

    claim: BackupClaim | None = None
    """The claim that the manifest makes about the backup."""
    objects: int = 0
    """The number of segments that were searched, whichever snapshots have them."""
    files: int = 0
    """The number of stored files without records that were searched for the bytes of keys."""

    @property
    def selected(self) -> int:
        """The number of records that were erased, each counted once for each segment that had it."""
        return 0 if self.claim is None else sum(len(each.erased_offsets) for each in self.claim.segments)

    def as_dict(self) -> dict[str, Any]:
        """Return the object that ``prove --json`` writes."""
        found = Proof.as_dict(self)
        return {
            **found,
            "partitions": len(self.claim.partitions) if self.claim else 0,
            "segmentsSearched": self.objects,
            "filesSearched": self.files,
        }


@dataclass(frozen=True, slots=True)
class _SearchTask:
    """The objects of one segment, and what is searched in them."""

    topic: str
    partition: int
    start_offset: int
    segment_id: str
    objects: Mapping[ObjectKind, DirectoryEntry]
    claim: ClaimedSegment | None
    """What the manifest has of the segment."""
    is_covered: bool
    """Whether its partition is in the manifest."""
    is_encrypted: bool
    """Whether the backup is encrypted."""
    selection: Selection | None
    search: PatternSearch | None
    keys: KeyPairs
    max_batch_bytes: int

    @property
    def size(self) -> int:
        """Bytes to read."""
        return sum(each.size or 0 for each in self.objects.values())


def prove(
    proving: Proving,
    report: Report = ignore,
    running: RunOptions = ALONE,
) -> Proof:
    """Checks the manifest of an erasure, of logs or in a backup; as :func:`brokerless.jobs.prove.job.prove`."""
    if not proving.manifest.is_directory() and is_of_backup(manifest := load_manifest(proving.manifest.path)):
        return _prove_backup(proving, manifest, report, RunOptions(running.done, processes=running.processes))
    return prove_logs(proving, report, running)


def _prove_backup(proving: Proving, manifest: SignedManifest, report: Report, running: RunOptions) -> BackupProof:
    """Checks a manifest, and searches all segments that the bucket has, also those that no snapshot reads.

    Raises :class:`UnreadableError` for what is no manifest or backup, and :class:`UsageError`.
    """
    claim = parse_claim(proving.manifest.path, manifest.value)
    proof = BackupProof(proving.manifest.path, manifest.value, (), claim=claim)
    add = partial(proof.add, report)
    if proving.source is not None:
        raise UsageError("--source: this manifest is of a backup; what was before the erasure is in no other place")
    place = _place(proving, manifest, claim)
    check_signature(manifest, proving.public_key, proof, add)
    if proving.selection is not None:
        check_selection(manifest, proving.selection)
    listed = _listed(place)
    _check_lists(place, claim, {segment_id for _, _, segment_id in listed}, add)
    search = PatternSearch(() if proving.selection is None else proving.selection.keys or ())
    proof.searched, proof.unsearched = len(search.patterns), search.left_out
    tasks = list(_tasks(place, claim, proving, search if search.patterns else None, listed=listed, report=add))
    proof.objects = len(tasks)
    with closing(run(search_task, tasks, running, name="brokerless prove")) as results:
        for findings in in_order(results):
            for each in findings:
                add(each)
    if search.patterns:
        keys = _keys(place, proving)
        proof.files = search_files(place, search, keys, proving.max_batch_bytes, report=add, done=running.done)
    return proof


def _keys(place: BackupPlace, proving: Proving) -> BackupKeys:
    return BackupKeys(proving.keys or KeyPairs({}), partial(data_keys, place))


def _place(proving: Proving, manifest: SignedManifest, claim: BackupClaim) -> BackupPlace:
    recorded = manifest.value.get("to")
    if proving.erased is None and not isinstance(recorded, str):
        raise UnreadableError(manifest.path, "the manifest does not say where the backup is; give it as --erased")
    location = proving.manifest.at(str(recorded)) if proving.erased is None else proving.erased
    place, chosen = backup_at(location)
    config = place.config()
    if chosen is not None:
        raise UsageError(f"{location}: the proof is about all snapshots; give the backup, and not one of them")
    if config is None or config.id != claim.id:
        raise UsageError(f"{location}: this is another backup than the one of the manifest; give that as --erased")
    if config.is_encrypted and not proving.keys:
        raise UsageError(f"{location}: this backup is encrypted; give a private key (--key-pair ID=FILE)")
    return place


def _check_lists(place: BackupPlace, claim: BackupClaim, there: Collection[str], report: Report) -> None:
    """Snapshots read what was written, or something else that came later, and nothing that was replaced. ``there``: the
    IDs of segments that have objects."""
    read: dict[str, str] = {}
    for loaded in load_with_segments(place, place.names()):
        if isinstance(loaded, UnreadableError):
            report(loaded.finding(loaded.path))
        else:
            read |= {each.segment_id: each.sha256 for each in loaded[1]}
    for finding in place.replacements().findings(there):
        report(finding)
    if old := [each for each in claim.segments if each.old_segment_id in read]:
        text = f"there is no list that replaces {count_of(len(old), 'segment')}, which snapshots read"
        report(not_finished(place.replaced_directory.path, text))
    for each in claim.not_written:
        if each.segment_id in read:
            name = names.partition_directory(each.topic, each.partition)
            text = f"the segment {each.segment_id} of {name} was not written again"
            report(not_written(place.location.path, text, each.start_offset))


def _tasks(
    place: BackupPlace,
    claim: BackupClaim,
    proving: Proving,
    search: PatternSearch | None,
    *,
    listed: _Listed,
    report: Report,
) -> Iterable[_SearchTask]:
    """A task for each segment that is in the bucket; those that were replaced are reported."""
    config = place.config()
    is_encrypted = config is not None and config.is_encrypted
    keys = _keys(place, proving)
    claims = {each.segment_id: each for each in claim.segments}
    old = {each.old_segment_id for each in claim.segments}
    left: list[DirectoryEntry] = []
    for (directory, start, segment_id), objects in sorted(listed.items()):
        named = parse_partition(*directory.rsplit("/", 2)[-2:])
        if segment_id in old:
            left += objects.values()
            continue
        if named is None or not _is_only(named.topic, named.partition, proving.only):
            continue
        yield _SearchTask(
            named.topic, named.partition, start, segment_id, objects=objects, claim=claims.get(segment_id),
            is_covered=(named.topic, named.topic_id, named.partition) in claim.partitions, is_encrypted=is_encrypted,
            selection=proving.selection, search=search, keys=keys, max_batch_bytes=proving.max_batch_bytes,
        )  # fmt: skip
    if left:
        report(_not_pruned(place, claim, left))


def _listed(place: BackupPlace) -> _Listed:
    """The objects of all segments, by the directory, start offset and ID; also what a run was writing."""
    found: dict[tuple[str, int, str], dict[ObjectKind, DirectoryEntry]] = defaultdict(dict)
    for entry, name in segment_objects(place.location):
        directory = entry.location.parent
        assert directory is not None
        suffix = SUFFIX if entry.name.endswith(SUFFIX) else ""
        key = directory.path, name.start_offset, name.segment_id + suffix
        found[key][name.kind] = entry
    return found


def _not_pruned(place: BackupPlace, claim: BackupClaim, left: Sequence[DirectoryEntry]) -> Finding:
    named = {each.list for each in claim.segments}
    written = [entry.written for name, entry in place.replaced_lists() if name.stem in named]
    times = [each for each in written if each is not None]
    when = ""
    if times:
        when = f" from {datetime.fromtimestamp((max(times) + GRACE_MS) / 1000, UTC):%Y-%m-%dT%H:%M:%SZ} on"
    text = f"{count_of(len(left), 'object')} of segments that were replaced; brokerless prune removes them{when}"
    path = min(left, key=lambda each: (not each.name.endswith(".log"), each.path)).path
    return Kind.ERASED_NOT_PRUNED.at(path, text)


def _is_only(topic: str, partition: int, only: Sequence[str]) -> bool:
    return not only or topic in only or names.partition_directory(topic, partition) in only


def search_task(task: _SearchTask, done: Done) -> list[Finding]:
    """Searches the records of a segment."""
    findings: list[Finding] = []
    log = task.objects.get("log")
    if log is None:
        return findings
    if task.search is not None:
        task.search.counts.clear()  # as in a process of its own
    try:
        with _open(task, log) as file:
            _search(task, file, findings.append, done)
    except (UnreadableError, WrongJsonError) as error:
        text = f"whether this has erased records is not known: {error}"
        findings.append(UnreadableError(log.path, text).finding(log.path, task.start_offset))
    return findings


def _open(task: _SearchTask, log: DirectoryEntry) -> File:
    entry = task.objects.get("rsm-manifest")
    if entry is None:
        if task.is_encrypted:
            raise UnreadableError(log.path, "a run was interrupted, and left it without a manifest; prune removes it")
        return log.location.open()
    manifest = parse_manifest(entry.location.read(LIMIT))
    return open_log(RemoteSegment(task.start_offset, task.segment_id, task.objects, manifest), log.path, task.keys)


def _search(task: _SearchTask, file: File, report: Report, done: Done) -> None:
    path, sha256, selected, first = file.path, hashlib.sha256(), 0, None
    matcher = None if task.selection is None else Matcher(task.selection, task.topic, task.partition)
    decoder = Decoder(max_batch_bytes=task.max_batch_bytes)
    for chunk in scan(file, report):
        if not len(chunk.batches):
            continue
        valid = check_checksums(chunk, path, report)
        sha256.update(chunk.buffer[int(chunk.batches.positions[0]) : int(chunk.batches.ends[-1])].data)
        for decoded in decode_whole(decoder, chunk.buffer, chunk.batches.take(valid), chunk.base):
            if matcher is not None and (found := matcher.match(decoded)).any():
                selected += int(found.sum())
                first = int(decoded.columns.offset[int(np.argmax(found))]) if first is None else first
            if task.search is not None:
                task.search.look_in_records(decoded.columns, np.zeros(decoded.columns.rows, np.bool_), path, report)
            del decoded
        done(int(chunk.batches.sizes.sum()))
    for finding in file.take_findings():
        report(finding)
    if selected:
        if task.is_covered:
            text = f"{count_of(selected, 'selected record')} in this segment"
            report(Kind.RECORD_PRESENT.at(path, text, offset=first))
        else:
            report(selected_outside(path, selected, "of the backup", first))
    if task.claim is not None and sha256.hexdigest() != task.claim.sha256:
        report(object_differs(path, task.claim, f"SHA-256 {task.claim.sha256}", sha256.hexdigest()))
