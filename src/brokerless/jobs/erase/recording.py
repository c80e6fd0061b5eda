"""Writes the manifest of a run of ``erase``, and goes on with that of one that was stopped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from brokerless.jobs.erase.copies import Copy
from brokerless.jobs.erase.job import ErasedPartition, Erasure
from brokerless.jobs.erase.signed_manifest import (
    Request,
    check_path,
    finished_partitions,
    load_private_key,
    partition_entry,
    write_manifest,
)
from brokerless.log.storage.paths import full_path

if TYPE_CHECKING:
    from collections.abc import Mapping


class ManifestWriter:
    """The manifest of one run. ``finished``: what an earlier run of the same request committed, as its manifest
    describes it, by the path of the target."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        sources: Sequence[str],
        to: str | os.PathLike[str],
        erasure: Erasure,
        sign_key: str | os.PathLike[str] | None = None,
    ) -> None:
        """Raises :class:`UsageError` where no manifest can be written, for that of another erasure, and for a key that
        is not Ed25519; UnreadableError."""
        self.path = os.fspath(path)
        self._key = None if sign_key is None else load_private_key(os.fspath(sign_key))
        self._request = Request(tuple(map(full_path, sources)), full_path(os.fspath(to)), erasure)
        check_path(self.path)
        self.finished: Mapping[str, dict[str, Any]] = finished_partitions(self.path, self._request)

    def write(self, partitions: Sequence[ErasedPartition], copies: Sequence[Copy]) -> None:
        """Writes it with these partitions, which are about to be committed, and those that were before. Raises
        UnwritableError."""
        entries = [*self.finished.values(), *map(partition_entry, partitions)]
        entries.sort(key=lambda each: (each["target"].rpartition("/")[0], each["topic"], each["partition"]))
        write_manifest(self.path, self._request, entries, [each.as_dict() for each in copies], self._key)
