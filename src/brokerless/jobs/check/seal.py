"""What was sealed of a backup, to be kept elsewhere: snapshots with their lists of segments and signatures.

Whoever can write to a bucket, and delete, can put another snapshot into the place of one, and a list into that of one;
not into a file that is somewhere else.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.jobs.signatures import is_signed_by, load_public_key, public_bytes
from brokerless.log.backups.names import SnapshotName, parse_stem
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.replaced import Replacements
from brokerless.log.backups.snapshot import Snapshot, SnapshotId, parse_segments, parse_snapshot
from brokerless.log.own_file import OwnFile
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import is_local_within, is_remote, local
from brokerless.log.storage.write_errors import unwritable
from brokerless.log.tiered.detection import backup_at
from brokerless.text import count_of
from brokerless.values import LenientValue, WrongJsonError


class SealedSnapshot(LenientValue, frozen=True):
    """A snapshot as it was when it was sealed."""

    name: str
    """The name of its files."""
    json: str
    """Its JSON."""
    segments: str
    """Its list of segments in Base64."""
    signature: str | None = None
    """Its signature in Base64; None without one."""

    def __post_init__(self) -> None:
        if parse_stem(self.name) is None:
            raise WrongJsonError("name is no name of a snapshot")
        try:
            self.json.encode()
            base64.b64decode(self.segments, validate=True)
            base64.b64decode(self.signature or "", validate=True)
        except ValueError as error:
            raise WrongJsonError("json is no text, or segments or signature are no Base64") from error


class Seal(LenientValue, frozen=True):
    """The seal of a backup: its snapshots as they were when it was written."""

    seal: Literal[1]
    backup: SnapshotId
    """The backup's ID."""
    snapshots: tuple[SealedSnapshot, ...]
    replaced: tuple[str, ...] = ()
    """The names of the lists of what erasures had replaced until then."""


SEAL_FILE = OwnFile(Seal, "the seal of a backup", "name the file that snapshots --seal wrote", 4 << 30)


def public_keys(files: Iterable[str | os.PathLike[str]] | str | os.PathLike[str]) -> tuple[bytes, ...]:
    """Read trusted public keys (Ed25519), of one file or several. Raises :class:`UsageError`, and UnreadableError."""
    listed = [files] if isinstance(files, str | os.PathLike) else files
    return tuple(public_bytes(load_public_key(os.fspath(each))) for each in listed)


def write_seal(location: Location, path: str) -> Seal:
    """Write all snapshots of a backup, or that of ``URL@SNAPSHOT``, to a file, which replaces an earlier seal only.

    Raises :class:`UsageError` for another file, or one in the backup; UnreadableError where a snapshot cannot be read;
    UnwritableError.
    """
    place, chosen = backup_at(location)
    if is_remote(path) or (not place.location.is_remote and is_local_within(path, place.location.path)):
        raise UsageError(f"{path}: a seal is a local file, and not in the backup that it is of; give another file")
    file = Path(local(path))
    if file.exists():
        try:
            load_seal(path)
        except UnreadableError as error:
            raise UsageError(f"{path}: this is no seal, and is not overwritten; give another file") from error
    config = place.config()
    assert config is not None
    names = place.names() if chosen is None else [chosen]
    seal = Seal(1, config.id, tuple(_sealed(place, each) for each in names), _lists(place))
    with unwritable(file):
        write_file(file, SEAL_FILE.dump(seal, path))
    return seal


def _lists(place: BackupPlace) -> tuple[str, ...]:
    return tuple(name.stem for name, _ in place.replaced_lists())


def _sealed(place: BackupPlace, name: SnapshotName) -> SealedSnapshot:
    place.segments(name, place.snapshot(name))  # what cannot be read is not sealed
    signature = place.signature(name)
    return SealedSnapshot(
        name.stem,
        place.snapshot_data(name).decode(),
        base64.b64encode(place.segments_data(name)).decode(),
        None if signature is None else base64.b64encode(signature).decode(),
    )


def load_seal(path: str) -> Seal:
    """Raises :class:`UnreadableError` for what is no seal, and :class:`UsageError` for one of a later version."""
    return SEAL_FILE.load(Location(path))


def check_seal(place: BackupPlace, path: str, trusted: Sequence[bytes] = ()) -> Iterator[Finding]:
    """Yield what is not as it was sealed, and what has explained removals.

    Raises :class:`UnreadableError` for what is no seal, and UsageError for that of another backup."""
    seal, config = load_seal(path), place.config()
    if config is None or config.id != seal.backup:
        raise UsageError(f"{path}: this is the seal of another backup than {place.location}")
    there, forgotten = set(place.names()), set(place.forgotten().names())
    try:
        replacements = place.replacements()
    except UnreadableError:  # which is reported of snapshots
        replacements = Replacements()
    then = Replacements([each for each in replacements.lists if each.name.stem in seal.replaced])
    for each in seal.snapshots:
        name = parse_stem(each.name)
        assert name is not None
        yield from _check_sealed(path, each, trusted)
        if name in there:
            yield from _compare(place, name, each, then=then, now=replacements)
        elif name in forgotten:
            text = f"snapshot {name.id} was forgotten since it was sealed; it is in {place.forgotten_directory.name}"
            yield Kind.SEALED_DIFFERS.at(place.location.path, text, severity="info")
        else:
            text = f"snapshot {name.id} was sealed, and is gone; if it was forgotten, and pruned, seal again"
            yield Kind.SEALED_DIFFERS.at(place.location.path, text, severity="error")


def _check_sealed(path: str, sealed: SealedSnapshot, trusted: Sequence[bytes]) -> Iterator[Finding]:
    signature = None if sealed.signature is None else base64.b64decode(sealed.signature)
    if trusted and not any(is_signed_by(key, sealed.json.encode(), signature) for key in trusted):
        yield unsigned_finding(path, sealed.name)


def _compare(
    place: BackupPlace, name: SnapshotName, sealed: SealedSnapshot, *, then: Replacements, now: Replacements
) -> Iterator[Finding]:
    data, listed = sealed.json.encode(), base64.b64decode(sealed.segments)
    file = place.snapshot_directory / f"{sealed.name}.json"
    try:
        is_same = place.snapshot_data(name) == data and place.segments_data(name) == listed
        snapshot = parse_snapshot(file, data)
        if not is_same or hashlib.sha256(listed).hexdigest() != snapshot.segments.sha256:
            yield Kind.SEALED_DIFFERS.at(
                file.path, f"snapshot {name.id} is not the one that was sealed", severity="error"
            )
            return
        segments = parse_segments(place.segments_file(name), listed)
    except UnreadableError as error:
        yield Kind.SEALED_DIFFERS.at(
            file.path, f"snapshot {name.id} was sealed, and cannot be read: {error}", severity="error"
        )
        return
    if count := sum(now.current(each).segment_id != then.current(each).segment_id for each in segments):
        text = (
            f"an erasure has replaced {count_of(count, 'segment')} of snapshot {name.id} since; prove has its manifest"
        )
        yield Kind.SEALED_DIFFERS.at(place.replaced_directory.path, text, severity="info")


def unsigned_snapshots(
    place: BackupPlace, snapshots: Iterable[Snapshot], trusted: Sequence[bytes]
) -> Iterator[Snapshot]:
    """Yield those that no trusted key has signed."""
    for each in snapshots:
        name = SnapshotName(each.created, each.id)
        data, signature = place.snapshot_data(name), place.signature(name)
        if not any(is_signed_by(key, data, signature) for key in trusted):
            yield each


def unsigned_findings(place: BackupPlace, snapshots: Iterable[Snapshot]) -> list[Finding]:
    return [unsigned_finding(place.location.path, f"snapshot {each.id}") for each in snapshots]


def unsigned_finding(path: str, what: str) -> Finding:
    """Return the finding about what no trusted key has signed."""
    return Kind.SNAPSHOT_UNSIGNED.at(path, f"{what} is not signed by a trusted key")
