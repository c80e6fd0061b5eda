"""What the manifest of an erasure claims of each partition, parsed strictly."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import numpy as np
from msgspec import Meta, field
from numpy.typing import NDArray

from brokerless.errors import UnreadableError
from brokerless.jobs.erase.signed_manifest import DIRECTORY_FILES, SignedManifest
from brokerless.log import names
from brokerless.log.storage.paths import directory_name, parent_directory
from brokerless.values import Int64, LenientValue, Sha256, ValueT, WrongJsonError, from_members

EditClaim = tuple[Int64, Int64, Annotated[str, Meta(pattern=r"\A([0-9a-f]{2})*\Z")]]
"""Where bytes of a value were replaced, how many, and by which, in hexadecimal digits."""


class FileClaim(LenientValue, frozen=True):
    """A file of a partition: its size in bytes, and its SHA-256."""

    name: str
    size: Int64 = field(name="sizeInBytes")
    sha256: Sha256


class TouchedClaim(LenientValue, frozen=True):
    """A batch that was rebuilt, as the manifest describes it."""

    base_offset: Int64
    last_offset: Int64
    selected: tuple[Int64, ...] = field(name="offsets")
    """The offsets of the selected records."""
    records_after: Int64
    """How many records stayed."""
    digest: Sha256 = field(name="keptSha256")
    """The digest of the records that stayed."""
    edits: tuple[tuple[EditClaim, ...], ...] | None = None
    """Where fields were blanked, what changed of the value of each selected record."""

    def __post_init__(self) -> None:
        offsets = self.offsets
        is_within = len(offsets) and offsets[0] >= self.base_offset and offsets[-1] <= self.last_offset
        if not is_within or (np.diff(offsets) <= 0).any():
            raise WrongJsonError("offsets are not ascending offsets of the batch")
        if self.edits is not None and len(self.edits) != len(offsets):
            raise WrongJsonError("edits are not one for each offset")
        for edits in self.edits or ():
            ends = [0, *(at + len(new) // 2 for at, _, new in edits)]
            if any(at < end for (at, _, _), end in zip(edits, ends, strict=False)):
                raise WrongJsonError("edits are not in the order of bytes")

    @property
    def offsets(self) -> NDArray[np.int64]:
        """The offsets of the selected records, ascending: int64."""
        return np.array(self.selected, np.int64)


class PartitionClaim(LenientValue, frozen=True):
    """The claims of a manifest about one partition."""

    topic: str
    partition: Int64
    source: str
    """The path of the partition's directory before the erasure."""
    target: str
    """The path of the partition's directory after it."""
    start_offset: Int64
    is_copied: bool
    untouched: Sha256 | None = field(name="untouchedSha256")
    """The SHA-256 of all batches that were not rebuilt; None for a partition that was copied."""
    before: tuple[FileClaim, ...]
    after: tuple[FileClaim, ...]
    touched: tuple[TouchedClaim, ...]
    """The batches that were rebuilt, in the order of offsets."""

    def __post_init__(self) -> None:
        parsed = names.parse_partition_directory(self.name)
        is_named = directory_name(self.target) == self.name
        if parsed is None or not is_named or (parsed.topic, parsed.partition) != (self.topic, self.partition):
            raise WrongJsonError("this is not the name of a partition")
        for each in (*self.before, *self.after):
            if not names.is_file_of_partition(each.name):
                raise WrongJsonError("name is not a file of a partition")
        bounds = [offset for each in self.touched for offset in (each.base_offset, each.last_offset + 1)]
        if bounds != sorted(bounds):
            raise WrongJsonError("touched: these are not in the order of offsets")

    @property
    def name(self) -> str:
        return names.partition_directory(self.topic, self.partition)

    @property
    def selected(self) -> int:
        return sum(len(each.offsets) for each in self.touched)

    @property
    def selected_offsets(self) -> NDArray[np.int64]:
        """The offsets of all records that were removed or blanked: int64."""
        return np.concatenate([np.empty(0, np.int64), *(each.offsets for each in self.touched)])

    def interval_of(self, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the touched batch in which each of some offsets is: int64, its number, or -1."""
        bases = np.array([each.base_offset for each in self.touched], np.int64)
        lasts = np.array([each.last_offset for each in self.touched], np.int64)
        found = np.searchsorted(bases, offsets, side="right") - 1
        is_within = found >= 0
        is_within[is_within] = offsets[is_within] <= lasts[found[is_within]]
        return np.where(is_within, found, -1)


class DirectoryClaim(LenientValue, frozen=True):
    """The files of a log directory ``target`` that are beside its partitions."""

    target: str
    after: tuple[FileClaim, ...]

    def __post_init__(self) -> None:
        if any(each.name not in DIRECTORY_FILES for each in self.after):
            raise WrongJsonError("name is not a file of a log directory")


class UnwrittenClaim(LenientValue, frozen=True):
    """A partition that the erasure could not write: its directory ``source``, and why."""

    topic: str
    partition: Int64
    source: str
    reason: str


def parse_unwritten(manifest: SignedManifest) -> tuple[UnwrittenClaim, ...]:
    """Parse the partitions that were not written, as :func:`parse_claims` does."""
    return _parse(manifest, "notWritten", UnwrittenClaim)


def parse_directories(manifest: SignedManifest) -> tuple[DirectoryClaim, ...]:
    """Parse the directories of a manifest, as :func:`parse_claims` does."""
    return _parse(manifest, "directories", DirectoryClaim)


def parse_claims(manifest: SignedManifest) -> tuple[PartitionClaim, ...]:
    """Raises :class:`UnreadableError` for a manifest that says something else than such do, names other files than
    those of a partition, or the same partition twice."""
    claims = _parse(manifest, "partitions", PartitionClaim)
    targets = Counter((parent_directory(each.target), each.name) for each in claims)
    for (_, name), count in targets.items():
        if count > 1:
            raise _foreign(manifest, f"{name} comes twice")
    return claims


def _parse(manifest: SignedManifest, name: str, kind: type[ValueT]) -> tuple[ValueT, ...]:
    try:
        return tuple(from_members(each, kind) for each in manifest.value.get(name, ()))
    except WrongJsonError as error:
        raise _foreign(manifest, f"{name}: {error}") from error


def _foreign(manifest: SignedManifest, reason: str) -> UnreadableError:
    return UnreadableError(manifest.path, f"this is not the manifest of an erasure ({reason})")
