"""The options of a run of a backup."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from brokerless.errors import UsageError
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.signatures import load_private_key
from brokerless.log.backups.snapshot import NAME
from brokerless.log.config import UNBOUNDED, LogConfig
from brokerless.log.tiered.writing.encryption import PublicKey, load_public_keys
from brokerless.requests.backups import BackupRequest
from brokerless.tables.read_options import bound

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

DEFAULT_SEGMENT_SIZE = 256 << 20


@dataclass(frozen=True, slots=True)
class BackupOptions:
    """The options of one run of a backup."""

    name: str | None = None
    """The snapshot's name, if it gets one."""
    segment_size: int = DEFAULT_SEGMENT_SIZE
    """Bytes at which segments end."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """Bytes that one batch may inflate to."""
    dry_run: bool = False
    """Whether everything is read and nothing is written."""
    is_selected: Callable[[str, int], bool] = lambda topic, number: True
    """Returns whether a partition is selected, by its topic and number; a selected one that no disk has is missing."""
    public_keys: tuple[PublicKey, ...] = ()
    """The public keys of the key pairs that the backup is encrypted for; the private key of each reads all of it."""
    one_key: bool = False
    """Whether one public key is enough."""
    compress: bool = False
    """Whether segments whose first batch is not compressed are compressed."""
    sign_key: Ed25519PrivateKey | None = None
    """Signs the snapshot."""
    set_name: str | None = None
    """The name of the set that this host's run is a part of, which has what the nodes of its disks lead; None for a run
    that has all."""

    def __post_init__(self) -> None:
        names_of_keys = [each.key_id for each in self.public_keys]
        if len(set(names_of_keys)) < len(names_of_keys):
            raise UsageError("--public-key: a key pair is given twice")
        if len(names_of_keys) == 1 and not self.one_key:
            text = f"without the private key of {names_of_keys[0]}, nobody reads the backup again"
            raise UsageError(
                f"--public-key: {text}; give a second one, whose private key is kept elsewhere, or --one-key"
            )
        if self.one_key and len(names_of_keys) != 1:
            raise UsageError("--one-key: this is for one --public-key")
        self.config  # noqa: B018 - it refuses sizes that no segment has
        if self.set_name is not None and self.name is not None:
            raise UsageError("--name: a snapshot of a set has the name of the set; leave out --name")
        self._check_name("--name", self.name)
        self._check_name("--set", self.set_name)

    def _check_name(self, option: str, name: str | None) -> None:
        if name is not None and (not NAME.fullmatch(name) or name == "latest"):
            text = "has 1 to 64 letters, digits, dots, dashes and underscores, and is not latest"
            raise UsageError(f"{option}: {name!r}; the name of a snapshot {text}")

    @property
    def config(self) -> LogConfig:
        """What a stored segment may have."""
        return replace(UNBOUNDED, segment_bytes=self.segment_size)


def options_of(request: BackupRequest, is_selected: Callable[[str, int], bool]) -> BackupOptions:
    """Return what was requested. ``is_selected``: as in :class:`BackupOptions`. Raises :class:`UsageError`, and
    UnreadableError for keys."""
    if (request.set_name is None) == request.leader_only:
        raise UsageError("--leader-only and --set NAME go together: each host stores what its node leads")
    return BackupOptions(
        set_name=request.set_name,
        name=request.name,
        segment_size=DEFAULT_SEGMENT_SIZE if request.segment_size is None else request.segment_size,
        max_batch_bytes=bound(request.max_batch_bytes),
        dry_run=request.dry_run,
        is_selected=is_selected,
        public_keys=load_public_keys(request.public_keys or {}),
        one_key=request.one_key,
        compress=request.compress,
        sign_key=None if request.sign_key is None else load_private_key(os.fspath(request.sign_key)),
    )
