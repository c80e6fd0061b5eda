"""Erases records in all snapshots of a backup: segments that have some are written again, and a list says which one is
read in place of which. Nothing is replaced or removed; ``prune`` removes what no snapshot reads any more.

The segments come first, then the manifest, then the list, which is created at once: a run that is killed leaves objects
that no snapshot names, and the same command does it all.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

from brokerless import clock
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.backup.job import refuse_pruned
from brokerless.jobs.backup_erasure.record import BackupManifest, ErasureRecord
from brokerless.jobs.backup_erasure.segment import SegmentTask, SegmentTaskResult, run_task
from brokerless.jobs.check.snapshots import load_with_segments
from brokerless.jobs.erase.selection import Selection, selected_by
from brokerless.jobs.forget.prune import GRACE_MS
from brokerless.jobs.run.job import in_order, longest_first, run
from brokerless.jobs.run.types import HERE, RunOptions
from brokerless.log import names
from brokerless.log.backups.names import SnapshotName
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.replaced import ReplacedSegment, dump_replaced
from brokerless.log.backups.snapshot import SnapshotSegment
from brokerless.log.storage.location import Location
from brokerless.log.storage.object_store import create_object
from brokerless.log.tiered.decryption import BackupKeys, KeyPairs
from brokerless.log.tiered.detection import backup_at
from brokerless.log.tiered.listing.encrypted_backup import data_keys
from brokerless.log.tiered.options import load_private_keys
from brokerless.log.tiered.writing.objects import UploadPlace
from brokerless.requests.backups import BackupErasureRequest
from brokerless.tables.read_options import bound
from brokerless.text import short_html, short_repr

_Partition = tuple[str, str, int]
"""A topic, its ID, and a partition's number."""


@dataclass(frozen=True, slots=True)
class ErasedOptions:
    """The options of an erasure in a backup."""

    selection: Selection
    is_selected: Callable[[str, int], bool] = lambda topic, number: True
    """Returns whether a partition is erased, by its topic and number."""
    is_named: Callable[[str], bool] = lambda topic: False
    """Returns whether a topic was named; only then, Kafka's own topics are erased."""
    keys: KeyPairs | None = None
    """Private keys of an encrypted backup."""
    manifest: str | None = None
    """The path of the manifest's file."""
    sign_key: str | None = None
    """The path of the key that signs the manifest."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    apply: bool = False


def options_of(
    request: BackupErasureRequest, is_selected: Callable[[str, int], bool], is_named: Callable[[str], bool]
) -> ErasedOptions:
    """Return what was requested. ``is_selected``, ``is_named``: as in :class:`ErasedOptions`. Raises
    :class:`UsageError`, and UnreadableError for keys."""
    return ErasedOptions(
        selected_by(request.keys, request.where, request.header),
        is_selected,
        is_named,
        keys=load_private_keys(request.key_pairs or {}),
        manifest=None if request.manifest is None else os.fspath(request.manifest),
        sign_key=None if request.sign_key is None else os.fspath(request.sign_key),
        max_batch_bytes=bound(request.max_batch_bytes),
        apply=request.apply,
    )


@dataclass(frozen=True, slots=True)
class PartitionErasure:
    """A partition in all snapshots of a backup, and what was erased in it."""

    topic: str
    topic_id: str
    partition: int
    segments: int
    """How many segments were read."""
    size: int
    """Bytes of the segments that were read."""
    touched: int
    """How many of the segments have selected records."""
    selected: int
    """How many records were selected."""

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)


@dataclass(frozen=True, slots=True)
class BackupErasure:
    """The result of an erasure in a backup."""

    place: str
    partitions: tuple[PartitionErasure, ...]
    replaced: tuple[ReplacedSegment, ...]
    """What was written, in place of which segments."""
    findings: tuple[Finding, ...]
    is_applied: bool
    list_id: str | None = None
    """The ID of the list with the replaced segments; None where nothing was written."""
    pruned_from: int | None = None
    """When the old objects may be pruned (ms), with the usual grace."""

    __repr__ = short_repr
    _repr_html_ = short_html

    @property
    def selected(self) -> int:
        """Records that are, or are to be, erased."""
        return sum(each.selected for each in self.partitions)


def erase_backup(
    location: Location,
    options: ErasedOptions,
    running: RunOptions = HERE,
) -> BackupErasure:
    """Erase records in all snapshots of a backup.

    Raises :class:`UsageError` for one snapshot of a backup, topics that no snapshot has, a manifest that cannot be
    written, and an encrypted backup without a private key; UnreadableError where a snapshot cannot be read, as nobody
    knows then what it has; UnwritableError.
    """
    place, chosen = backup_at(location)
    if chosen is not None:
        raise UsageError(f"{location}: records are erased in all snapshots; give the backup, and not one of them")
    manifest = _manifest(place, options)
    keys = _keys(place, options)
    known = _segments(place)
    partitions = [each for each in known if _is_chosen(each, options)]
    if not partitions:
        raise UsageError(f"{place.location}: no snapshot has such a partition")
    tasks = [
        _task(place, each, segment, keys=keys, options=options)
        for each in partitions
        for segment in known[each].values()
    ]
    with closing(run(run_task, tasks, running, name="brokerless erase", order=longest_first(tasks))) as values:
        results = list(in_order(values))
    _refuse_unread(results)
    replaced = tuple(each.replaced for each in results if each.replaced is not None)
    findings = [finding for each in results for finding in each.findings]
    by_place: dict[_Partition, list[SegmentTaskResult]] = defaultdict(list)
    for each in results:
        by_place[each.segment.topic, each.segment.topic_id, each.segment.partition].append(each)
    found = tuple(_summed(each, by_place[each]) for each in sorted(by_place))
    result = BackupErasure(place.location.path, found, replaced, findings=tuple(findings), is_applied=options.apply)
    if not options.apply:
        return result
    unwritten = [each.segment for each in results if each.findings]
    name = SnapshotName(_created(place), os.urandom(4).hex())
    read = [(each.topic, each.topic_id, each.partition) for each in found]
    record = ErasureRecord(name, replaced, read, unwritten)
    assert manifest is not None
    manifest.write(record, place)
    if not replaced:
        return result
    refuse_pruned(place, [each.new for each in replaced])
    return replace(_commit(place, name, replaced, result), list_id=name.id)


def _refuse_unread(results: Sequence[SegmentTaskResult]) -> None:
    """Raise :class:`UnreadableError` where no segment was read, as no key pair fits: a manifest would say of an erasure
    that it was tried."""
    missing = [[one for one in each.findings if one.kind == Kind.REMOTE_KEY_MISSING] for each in results]
    if missing and all(missing):
        first = missing[0][0]
        raise UnreadableError(first.file, first.message, Kind.REMOTE_KEY_MISSING)


def _manifest(place: BackupPlace, options: ErasedOptions) -> BackupManifest | None:
    if options.sign_key is not None and options.manifest is None:
        raise UsageError("--sign-key needs --manifest, which it signs")
    if not options.apply:
        return None
    if options.manifest is None:
        raise UsageError("--apply needs --manifest, by which prove knows what has to be gone")
    return BackupManifest(options.manifest, place, options.selection, options.sign_key)


def _keys(place: BackupPlace, options: ErasedOptions) -> KeyPairs:
    keys, config = options.keys or KeyPairs({}), place.config()
    if config is None or not config.is_encrypted:
        return keys
    if not keys:
        raise UsageError(f"{place.location}: this backup is encrypted; give a private key (--key-pair ID=FILE)")
    return BackupKeys(keys, partial(data_keys, place))


def _segments(place: BackupPlace) -> Mapping[_Partition, Mapping[str, SnapshotSegment]]:
    """Return all segments that snapshots read, of which some may be forgotten, and can be moved back."""
    found: dict[_Partition, dict[str, SnapshotSegment]] = defaultdict(dict)
    of_sets = (part for each in place.sets() for part in place.parts(each))
    for each in (place, place.forgotten(), *of_sets):
        for loaded in load_with_segments(each, _whole(each)):
            if isinstance(loaded, UnreadableError):
                text = "nothing is erased, as nobody knows what this snapshot has; forget it, or repair it"
                raise UnreadableError(loaded.path, f"{loaded.reason}; {text}", loaded.kind) from loaded
            for one in loaded[1]:
                found[one.topic, one.topic_id, one.partition].setdefault(one.segment_id, one)
    return found


def _whole(place: BackupPlace) -> list[SnapshotName]:
    """Return all snapshots; of those that were forgotten, the ones of which both files are there."""
    known, listed = place.names_by_suffix()
    return known if place == BackupPlace(place.location) else [each for each in known if each in listed]


def _is_chosen(partition: _Partition, options: ErasedOptions) -> bool:
    topic, _, number = partition
    if not options.is_selected(topic, number) or (names.is_internal(topic) and not options.is_named(topic)):
        return False
    if topic == names.CLUSTER_METADATA:
        raise UsageError(f"{names.CLUSTER_METADATA} is KRaft's own log, and no broker starts on other batches in it")
    return True


def _task(
    place: BackupPlace, partition: _Partition, segment: SnapshotSegment, keys: KeyPairs, options: ErasedOptions
) -> SegmentTask:
    return SegmentTask(
        UploadPlace(place.location, *partition), segment, options.selection, keys=keys,
        max_batch_bytes=options.max_batch_bytes, apply=options.apply,
    )  # fmt: skip


def _summed(partition: _Partition, results: Sequence[SegmentTaskResult]) -> PartitionErasure:
    return PartitionErasure(
        *partition, segments=len(results), size=sum(each.segment.size_in_bytes for each in results),
        touched=sum(each.selected > 0 for each in results), selected=sum(each.selected for each in results),
    )  # fmt: skip


def _created(place: BackupPlace) -> int:
    """Return the time of a new list, after all that are there, also if a clock went back."""
    known = (name for name, _ in place.replaced_lists())
    return max([clock.now(), *(each.created + 1 for each in known)])


def _commit(
    place: BackupPlace, name: SnapshotName, replaced: Sequence[ReplacedSegment], result: BackupErasure
) -> BackupErasure:
    """Creates the list, from which on snapshots read what is new, and looks whether another run did so meanwhile."""
    file = place.replaced_file(name)
    if not create_object(file, dump_replaced(replaced)):
        raise UsageError(f"{file}: this is there already, and a list is never replaced; try again")
    known = place.replacements()
    findings = [*result.findings, *known.findings()]
    own = next((each for each in known.lists if each.name == name), None)
    written = clock.now() if own is None or own.written is None else own.written
    return replace(result, findings=tuple(findings), pruned_from=written + GRACE_MS)
