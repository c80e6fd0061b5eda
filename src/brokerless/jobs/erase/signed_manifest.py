"""The manifest of an erasure: what was read, erased and written, as one JSON file, and its Ed25519 signature beside it.

``FILE`` is JSON in UTF-8; ``FILE.sig`` has the 64 bytes of the signature of exactly these bytes (RFC 8032). The
manifest holds no erased value: the selection is in it as a commitment (scrypt with a random salt), and records are
named by their offsets.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.erase.job import ErasedPartition, Erasure
from brokerless.jobs.erase.selection import SCRYPT, Selection
from brokerless.jobs.manifest import describe_file
from brokerless.jobs.signatures import SIGNATURE_LIMIT, public_bytes
from brokerless.log import names
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.destination import Destination
from brokerless.log.storage.guarded_files import read_own
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import full_path, is_local_within, is_remote, local
from brokerless.log.storage.write_errors import unwritable
from brokerless.typed.blanking.schemas import RecordedSchemas, parse_recorded
from brokerless.values import Int64, LenientValue, WrongJsonError, from_members, parse_object

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

VERSION = 2
LIMIT = 1 << 30
"""Bytes of a manifest: some 10 for each erased record, and 200 for each touched batch."""
_SALT_BYTES = 16
DIRECTORY_FILES = names.LOG_DIRECTORY_FILES - {names.LOCK, names.COMMIT_LOCK, names.COMMIT_JOURNAL}
"""Of a log directory, beside its partitions, what a manifest has."""


@dataclass(frozen=True, slots=True)
class RecordedRequest:
    """The request of a run of ``erase``, by which a later run is known for the same."""

    sources: tuple[str, ...]
    to: str
    erasure: Erasure

    def action(self) -> dict[str, Any]:
        blanking = self.erasure.blanking
        return {"kind": "remove"} if blanking is None else blanking.action()


def describe_selection(selection: Selection, salt: bytes | None = None) -> dict[str, Any]:
    """Return a selection as a manifest has it. ``salt``: of an earlier one; random by default."""
    salt = os.urandom(_SALT_BYTES) if salt is None else salt
    number = {"keys": len(selection.keys)} if selection.keys is not None else {}
    function = {"n": SCRYPT["n"], "r": SCRYPT["r"], "p": SCRYPT["p"], "dklen": SCRYPT["dklen"]}
    commitment = selection.commitment(salt)
    return {"kind": selection.kind, **number, "salt": salt.hex(), "scrypt": function, "commitment": commitment}


class _Salted(LenientValue, frozen=True):
    salt: str


def is_selection(described: Mapping[str, Any], selection: Selection) -> bool:
    """Return whether a selection is the one that a manifest describes. Raises :class:`WrongJsonError`."""
    try:
        salt = bytes.fromhex(from_members(described, _Salted).salt)
    except ValueError as error:
        raise WrongJsonError("salt: these are no hexadecimal digits") from error
    return described.get("kind") == selection.kind and selection.commitment(salt) == described.get("commitment")


def partition_entry(each: ErasedPartition) -> dict[str, Any]:
    """Return a partition as a manifest has it."""
    result = each.as_dict()
    del result["damages"]
    return {
        **result,
        "source": full_path(each.task.source.path),
        "target": full_path(each.task.directory.join(each.task.name)),
        "untouchedSha256": each.untouched or None,
        "before": [_file_entry(file.path, file.size, file.sha256) for file in each.before],
        "after": [_file_entry(file.path, file.size, file.sha256) for file in each.after],
        "touched": [touched.as_dict() for touched in each.totals.touched],
    }


def unwritten_entry(each: ErasedPartition) -> dict[str, Any] | None:
    """Return a partition that damage kept from being written, as a manifest has it; None for another."""
    if not each.damages:
        return None
    return {
        "topic": each.task.topic,
        "partition": each.task.partition,
        "source": full_path(each.task.source.path),
        "target": full_path(each.task.directory.join(each.task.name)),
        "reason": each.damages[0].message,
    }


def _file_entry(path: str, size: int, sha256: str) -> dict[str, Any]:
    return {"name": path.rpartition("/")[2], "sizeInBytes": size, "sha256": sha256}


def directory_entry(directory: Destination) -> dict[str, Any]:
    """Return the files of a log directory that are beside its partitions, such as checkpoints, as a manifest has
    them."""
    files = [
        describe_file(each) for each in directory.entries() if each.name in DIRECTORY_FILES and not each.is_directory
    ]
    after = [_file_entry(each.path, each.size, each.sha256) for each in files]
    return {"target": full_path(str(directory)), "after": after}


@dataclass(frozen=True, slots=True)
class ManifestEntries:
    """The parts of an erasure's manifest beside its request, each as in its JSON."""

    selection: Mapping[str, Any]
    """The selection as :func:`describe_selection` returns it."""
    partitions: Sequence[Mapping[str, Any]]
    not_written: Sequence[Mapping[str, Any]]
    directories: Sequence[Mapping[str, Any]]
    copies: Sequence[Mapping[str, Any]]
    schemas: Sequence[Mapping[str, Any]]
    """The schemas by which fields were blanked, so that they can be checked without a registry."""
    backup: Mapping[str, Any] | None = None
    """What was erased in all snapshots of a backup; None for logs."""


def write_manifest(
    path: str, request: RecordedRequest, entries: ManifestEntries, key: Ed25519PrivateKey | None
) -> None:
    """Writes a manifest, and its signature if there is a key; both replace what was there. Raises UnwritableError."""
    manifest = {
        "erasure": VERSION,
        "tool": "brokerless",
        "version": version("brokerless"),
        "created": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "sources": list(request.sources),
        "to": request.to,
        "selection": entries.selection,
        "action": request.action(),
        "schemas": list(entries.schemas),
        "publicKey": None if key is None else public_bytes(key.public_key()).hex(),
        "partitions": list(entries.partitions),
        "notWritten": list(entries.not_written),
        "directories": list(entries.directories),
        "copies": list(entries.copies),
        **({} if entries.backup is None else {"backup": entries.backup}),
    }
    data = json.dumps(manifest, indent=1).encode() + b"\n"
    own = Path(local(path))
    with unwritable(own):
        signature = own.with_name(own.name + ".sig")
        signature.unlink(missing_ok=True)
        write_file(own, data)
        if key is not None:
            write_file(signature, key.sign(data))


def check_path(path: str, sources: Sequence[str] = ()) -> None:
    """Raises :class:`UsageError` where no manifest can be written, among ``sources``, or where there is another
    file."""
    if is_remote(path):
        raise UsageError(f"{path}: a manifest is written to a local file; use --manifest FILE")
    own = Path(local(path))
    if not own.absolute().parent.is_dir():
        text = f"there is no directory {own.absolute().parent}; make it, or give another file"
        raise UsageError(f"{path}: the manifest cannot be written, as {text}")
    for each in sources:
        if is_local_within(str(own), each):
            raise UsageError(f"{path} is within {each}, which is read; use --manifest FILE with a file somewhere else")
    if os.path.lexists(own):
        try:
            load_manifest(path)
        except UnreadableError as error:
            text = "this is not the manifest of an erasure and is not overwritten; give another file"
            raise UsageError(f"{path}: {text}") from error


@dataclass(frozen=True, slots=True)
class SignedManifest:
    """A manifest that was read."""

    path: str
    data: bytes
    """The manifest's bytes."""
    value: dict[str, Any]
    signature: bytes | None
    """The bytes of the signature's file next to it; None without one."""


class _ManifestVersion(LenientValue, frozen=True):
    erasure: Int64


class _Parts(LenientValue, frozen=True):
    """The parts that each manifest has. Their contents are checked by those who need them."""

    sources: list[Any]
    partitions: list[Any]
    directories: list[Any]
    copies: list[Any]
    selection: dict[str, Any]
    action: dict[str, Any]
    not_written: tuple[Any, ...] = ()


def load_manifest(path: str) -> SignedManifest:
    """Raises :class:`UnreadableError` for what is not there, or is no manifest of this version."""
    data = read_own(Location(path), LIMIT)
    try:
        value = parse_object(data)
        found = from_members(value, _ManifestVersion).erasure
        if found != VERSION:
            raise UnreadableError(path, f"a manifest of version {found}; this brokerless knows version {VERSION}")
        from_members(value, _Parts)
    except (WrongJsonError, RecursionError) as error:
        raise UnreadableError(path, f"this is not the manifest of an erasure ({error})") from error
    signature = f"{path}.sig"
    has_signature = os.path.lexists(local(signature)) if not is_remote(path) else False
    return SignedManifest(path, data, value, read_own(Location(signature), SIGNATURE_LIMIT) if has_signature else None)


def finished_partitions(path: str, request: RecordedRequest, to: Location) -> dict[str, dict[str, Any]]:
    """Return what an earlier run of the same request wrote and committed in ``to``, by the path of the target. Raises
    :class:`UsageError` for the manifest of another request."""
    manifest = manifest_of(path, request)
    if manifest is None:
        return {}
    found: dict[str, dict[str, Any]] = {}
    for each in manifest["partitions"]:
        target = each["target"]
        there = {file.name: file.size for file in Destination(to.at(target)).entries()}
        files = [(file["name"], file["sizeInBytes"]) for file in each["after"]]
        if files and all(there.get(name) == size for name, size in files):
            found[target] = each
    return found


def manifest_of(path: str, request: RecordedRequest) -> dict[str, Any] | None:
    """Return the manifest of an earlier run of the same request; None where there is none. Raises :class:`UsageError`
    for that of another request."""
    if not os.path.lexists(local(path)):
        return None
    manifest = load_manifest(path).value
    is_same = manifest["sources"] == list(request.sources) and manifest.get("to") == request.to
    is_same = is_same and manifest["action"] == request.action()
    if not is_same or not is_selection(manifest["selection"], request.erasure.selection):
        advice = "name another file with --manifest, or another directory with --to"
        raise UsageError(f"{path}: this manifest is of another erasure; {advice}")
    return manifest


def unwritten_partitions(path: str) -> dict[str, dict[str, Any]]:
    """Return what an earlier run could not write, by the path of the target."""
    if not os.path.lexists(local(path)):
        return {}
    every = load_manifest(path).value.get("notWritten", [])
    return {each["target"]: each for each in every if isinstance(each, dict) and isinstance(each.get("target"), str)}


def recorded_schemas(manifest: SignedManifest) -> RecordedSchemas:
    """Return the schemas by which fields were blanked. Raises :class:`UnreadableError` for what is none."""
    try:
        return parse_recorded(manifest.value.get("schemas", []))
    except (WrongJsonError, RecursionError) as error:
        raise UnreadableError(manifest.path, f"this is not the manifest of an erasure ({error})") from error
