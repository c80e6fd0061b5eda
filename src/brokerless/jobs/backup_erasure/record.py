"""The manifest of an erasure in a backup: what was read, which segments were replaced, and the lists of these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from brokerless.errors import UnreadableError
from brokerless.jobs.erase.job import Erasure
from brokerless.jobs.erase.selection import Selection
from brokerless.jobs.erase.signed_manifest import (
    ManifestEntries,
    RecordedRequest,
    SignedManifest,
    check_path,
    describe_selection,
    manifest_of,
    write_manifest,
)
from brokerless.jobs.signatures import load_private_key
from brokerless.log.backups.names import SnapshotName, parse_stem
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.replaced import ReplacedSegment
from brokerless.log.backups.snapshot import SnapshotId, SnapshotSegment, check_partition
from brokerless.log.storage.paths import full_path
from brokerless.values import Int32, Int64, LenientValue, Sha256, Uuid, WrongJsonError, from_members, members

MEMBER = "backup"
"""The member that a manifest has which is about a backup."""


class ClaimedSegment(LenientValue, frozen=True):
    """A segment that was replaced, and the one in its place."""

    topic: str
    topic_id: Uuid
    partition: Int32
    start_offset: Int64
    end_offset: Int64
    old_segment_id: Uuid
    old_sha256: Sha256
    segment_id: Uuid
    sha256: Sha256
    erased_offsets: tuple[Int64, ...]
    """The offsets of the records that are gone."""
    list: str
    """The name of the list that it is in."""

    def __post_init__(self) -> None:
        check_partition(self.topic, self.partition)
        if parse_stem(self.list) is None:
            raise WrongJsonError("list is no name of a list")


class UnwrittenSegment(LenientValue, frozen=True):
    """A segment that could not be read, or written."""

    topic: str
    partition: Int32
    start_offset: Int64
    end_offset: Int64
    segment_id: Uuid


class BackupClaim(LenientValue, frozen=True):
    """The claim that a manifest makes about a backup."""

    id: SnapshotId
    """The backup's ID."""
    partitions: tuple[tuple[str, Uuid, Int32], ...]
    """All partitions that were read, each as its topic, the topic's ID and the number."""
    segments: tuple[ClaimedSegment, ...]
    not_written: tuple[UnwrittenSegment, ...]


@dataclass(frozen=True, slots=True)
class ErasureRecord:
    """One run of an erasure in a backup, as its manifest records it."""

    name: SnapshotName
    """The name of the list of what it replaced."""
    replaced: Sequence[ReplacedSegment]
    partitions: Sequence[tuple[str, str, int]]
    """The partitions that were read, each as its topic, the topic's ID and the number."""
    unwritten: Sequence[SnapshotSegment]
    """Segments that could not be read, or written."""


class BackupManifest:
    """The manifest of an erasure in a backup, to which a repeated run adds."""

    def __init__(self, path: str, place: BackupPlace, selection: Selection, sign_key: str | None) -> None:
        """Raises :class:`UsageError` where no manifest can be written, for that of another erasure, and for a key that
        is not Ed25519; UnreadableError."""
        self._path, self._key = path, None if sign_key is None else load_private_key(sign_key)
        where = full_path(place.location.path)
        self._request = RecordedRequest((where,), where, Erasure(selection))
        check_path(path, (where,))
        known = manifest_of(path, self._request)
        self._earlier = None if known is None else parse_claim(path, known)

    def write(self, record: ErasureRecord, place: BackupPlace) -> None:
        """Writes it with what is about to be committed, and what earlier runs were. Raises UnwritableError."""
        config = place.config()
        assert config is not None
        earlier = self._earlier
        there = [] if earlier is None else list(_committed(earlier.segments, place))
        partitions = {*record.partitions, *(() if earlier is None else earlier.partitions)}
        segments = [*there, *(_claimed(each, record.name) for each in record.replaced)]
        unwritten = [
            UnwrittenSegment(
                each.topic, each.partition, each.start_offset, end_offset=each.end_offset, segment_id=each.segment_id
            )
            for each in record.unwritten
        ]
        claim = BackupClaim(config.id, tuple(sorted(partitions)), tuple(segments), tuple(unwritten))
        selection = describe_selection(self._request.erasure.selection)
        entries = ManifestEntries(
            selection, partitions=(), not_written=(), directories=(), copies=(), schemas=(), backup=members(claim)
        )
        write_manifest(self._path, self._request, entries, self._key)


def _committed(segments: Iterable[ClaimedSegment], place: BackupPlace) -> Iterable[ClaimedSegment]:
    """Return what earlier runs committed: those that were stopped have no list."""
    there = {each.name.stem for each in place.replacements().lists}
    return (each for each in segments if each.list in there)


def _claimed(replaced: ReplacedSegment, name: SnapshotName) -> ClaimedSegment:
    old, new = replaced.old, replaced.new
    return ClaimedSegment(
        new.topic, new.topic_id, new.partition, start_offset=new.start_offset, end_offset=new.end_offset,
        old_segment_id=old.old_segment_id, old_sha256=old.old_sha256, segment_id=new.segment_id, sha256=new.sha256,
        erased_offsets=old.erased_offsets, list=name.stem,
    )  # fmt: skip


def is_of_backup(manifest: SignedManifest) -> bool:
    """Return whether a manifest is about a backup."""
    return MEMBER in manifest.value


def parse_claim(path: str, manifest: dict[str, Any]) -> BackupClaim:
    """Raises :class:`UnreadableError` for a manifest of something else."""
    try:
        return from_members(manifest.get(MEMBER), BackupClaim)
    except WrongJsonError as error:
        raise UnreadableError(path, f"this is not the manifest of an erasure in a backup ({error})") from error
