"""What the manifest of an erasure claims of each partition, parsed strictly."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.jobs.erase.blanking import RecordEdits
from brokerless.jobs.erase.signed_manifest import DIRECTORY_FILES, SignedManifest
from brokerless.log import names
from brokerless.log.storage.paths import directory_name, parent_directory
from brokerless.strict_json import (
    WrongJsonError,
    as_flag,
    as_integer,
    as_list,
    as_object,
    as_text,
    member,
    optional,
)

_SHA256 = re.compile(r"[0-9a-f]{64}")
_BYTES = re.compile(r"([0-9a-f]{2})*")


@dataclass(frozen=True, slots=True)
class FileClaim:
    """A file of a partition: its size in bytes, and its SHA-256."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class TouchedClaim:
    """A batch that was rebuilt: its offsets, the selected records (int64), how many stayed, and their digest.
    ``edits``: what changed of the value of each selected record, where fields were blanked."""

    base_offset: int
    last_offset: int
    offsets: NDArray[np.int64]
    records_after: int
    digest: str
    edits: tuple[RecordEdits, ...] | None = None


@dataclass(frozen=True, slots=True)
class PartitionClaim:
    """``source`` and ``target`` are the paths of the partition's directory; ``untouched`` is the SHA-256 of all batches
    that were not rebuilt, None of one that was copied; ``touched`` is in the order of offsets."""

    topic: str
    partition: int
    source: str
    target: str
    start_offset: int
    is_copied: bool
    untouched: str | None
    before: tuple[FileClaim, ...]
    after: tuple[FileClaim, ...]
    touched: tuple[TouchedClaim, ...]

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)

    @property
    def selected(self) -> int:
        return sum(len(each.offsets) for each in self.touched)

    @property
    def selected_offsets(self) -> NDArray[np.int64]:
        """Of all records that were removed or blanked: int64."""
        return np.concatenate([np.empty(0, np.int64), *(each.offsets for each in self.touched)])

    def interval_of(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """The touched batch in which each of some offsets is: int64, its number, or -1."""
        bases = np.array([each.base_offset for each in self.touched], np.int64)
        lasts = np.array([each.last_offset for each in self.touched], np.int64)
        found = np.searchsorted(bases, offsets, side="right") - 1
        is_within = found >= 0
        is_within[is_within] = offsets[is_within] <= lasts[found[is_within]]
        return np.where(is_within, found, -1)


@dataclass(frozen=True, slots=True)
class DirectoryClaim:
    """The files of a log directory ``target`` that are beside its partitions."""

    target: str
    after: tuple[FileClaim, ...]


@dataclass(frozen=True, slots=True)
class UnwrittenClaim:
    """A partition that the erasure could not write: its directory ``source``, and why."""

    topic: str
    partition: int
    source: str
    reason: str


def parse_unwritten(manifest: SignedManifest) -> tuple[UnwrittenClaim, ...]:
    """As :func:`parse_claims`."""
    try:
        return as_list(manifest.value.get("notWritten", []), "notWritten", _unwritten)
    except WrongJsonError as error:
        raise UnreadableError(manifest.path, f"this is not the manifest of an erasure ({error})") from error


def parse_directories(manifest: SignedManifest) -> tuple[DirectoryClaim, ...]:
    """As :func:`parse_claims`."""
    try:
        return as_list(manifest.value["directories"], "directories", _directory)
    except WrongJsonError as error:
        raise UnreadableError(manifest.path, f"this is not the manifest of an erasure ({error})") from error


def parse_claims(manifest: SignedManifest) -> tuple[PartitionClaim, ...]:
    """Raises :class:`UnreadableError` for a manifest that says something else than such do, names other files than
    those of a partition, or the same partition twice."""
    try:
        claims = as_list(manifest.value["partitions"], "partitions", _partition)
        targets = Counter((parent_directory(each.target), each.name) for each in claims)
        for (_, name), count in targets.items():
            if count > 1:
                raise WrongJsonError(f"{name} comes twice")
        return claims
    except WrongJsonError as error:
        raise UnreadableError(manifest.path, f"this is not the manifest of an erasure ({error})") from error


def _partition(value: Any, name: str) -> PartitionClaim:
    found = as_object(value, name)

    def get(key: str) -> Any:
        return member(found, key)

    claim = PartitionClaim(
        as_text(get("topic"), f"{name}.topic"),
        as_integer(get("partition"), f"{name}.partition"),
        as_text(get("source"), f"{name}.source"),
        as_text(get("target"), f"{name}.target"),
        as_integer(get("startOffset"), f"{name}.startOffset"),
        as_flag(get("isCopied"), f"{name}.isCopied"),
        optional(get("untouchedSha256"), f"{name}.untouchedSha256", _sha256),
        as_list(get("before"), f"{name}.before", _file),
        as_list(get("after"), f"{name}.after", _file),
        as_list(get("touched"), f"{name}.touched", _touched),
    )
    parsed = names.parse_partition_directory(claim.name)
    if (
        parsed is None
        or directory_name(claim.target) != claim.name
        or (parsed.topic, parsed.partition) != (claim.topic, claim.partition)
    ):
        raise WrongJsonError(f"{name}: this is not the name of a partition")
    bounds = [offset for each in claim.touched for offset in (each.base_offset, each.last_offset + 1)]
    if bounds != sorted(bounds):
        raise WrongJsonError(f"{name}.touched: these are not in the order of offsets")
    return claim


def _unwritten(value: Any, name: str) -> UnwrittenClaim:
    found = as_object(value, name)
    topic, source, reason = (as_text(member(found, key), f"{name}.{key}") for key in ("topic", "source", "reason"))
    return UnwrittenClaim(topic, as_integer(member(found, "partition"), f"{name}.partition"), source, reason)


def _directory(value: Any, name: str) -> DirectoryClaim:
    found = as_object(value, name)
    target = as_text(member(found, "target"), f"{name}.target")
    return DirectoryClaim(target, as_list(member(found, "after"), f"{name}.after", _directory_file))


def _sha256(value: Any, name: str) -> str:
    text = as_text(value, name)
    if not _SHA256.fullmatch(text):
        raise WrongJsonError(f"{name} is no SHA-256")
    return text


def _file(value: Any, name: str) -> FileClaim:
    own = as_text(member(as_object(value, name), "name"), f"{name}.name")
    if names.parse_segment_file(own) is None and not names.is_partition_file(own):
        raise WrongJsonError(f"{name}.name is not a file of a partition")
    return _any_file(value, name, own)


def _directory_file(value: Any, name: str) -> FileClaim:
    own = as_text(member(as_object(value, name), "name"), f"{name}.name")
    if own not in DIRECTORY_FILES:
        raise WrongJsonError(f"{name}.name is not a file of a log directory")
    return _any_file(value, name, own)


def _any_file(value: Any, name: str, own: str) -> FileClaim:
    found = as_object(value, name)
    size = as_integer(member(found, "sizeInBytes"), f"{name}.sizeInBytes")
    return FileClaim(own, size, _sha256(member(found, "sha256"), f"{name}.sha256"))


def _touched(value: Any, name: str) -> TouchedClaim:
    found = as_object(value, name)
    base, last, after = (
        as_integer(member(found, key), f"{name}.{key}") for key in ("baseOffset", "lastOffset", "recordsAfter")
    )
    offsets = np.array(as_list(member(found, "offsets"), f"{name}.offsets", as_integer), np.int64)
    if not len(offsets) or (np.diff(offsets) <= 0).any() or offsets[0] < base or offsets[-1] > last:
        raise WrongJsonError(f"{name}.offsets are not ascending offsets of the batch")
    edits = as_list(found["edits"], f"{name}.edits", _edits) if "edits" in found else None
    if edits is not None and len(edits) != len(offsets):
        raise WrongJsonError(f"{name}.edits are not one for each offset")
    digest = _sha256(member(found, "keptSha256"), f"{name}.keptSha256")
    return TouchedClaim(base, last, offsets, after, digest, edits)


def _edits(value: Any, name: str) -> RecordEdits:
    edits = as_list(value, name, _edit)
    ends = [0, *(at + len(new) // 2 for at, _, new in edits)]
    if any(at < end for (at, _, _), end in zip(edits, ends, strict=False)):
        raise WrongJsonError(f"{name} are not in the order of bytes")
    return edits


def _edit(value: Any, name: str) -> tuple[int, int, str]:
    if not isinstance(value, list) or len(cast("list[Any]", value)) != 3:
        raise WrongJsonError(f"{name} is no edit")
    at, removed, new = cast("list[Any]", value)
    text = as_text(new, name)
    if not _BYTES.fullmatch(text):
        raise WrongJsonError(f"{name}: these are no hexadecimal digits")
    return as_integer(at, name), as_integer(removed, name), text
