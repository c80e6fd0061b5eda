"""What is encrypted in a backup next to segments: its files, and the data keys of its runs for more key pairs."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable
from contextlib import suppress

from brokerless.errors import UnreadableError
from brokerless.findings import Kind
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.snapshot import SnapshotFile
from brokerless.log.tiered.decryption import DecryptionError, KeyPairs, decrypt_file, unwrap
from brokerless.log.tiered.listing.folder import Folder
from brokerless.log.tiered.manifest import Encryption, Manifest


def data_keys(backup: BackupPlace) -> dict[str, dict[str, bytes]]:
    """Return the data keys of a backup's runs, by what they are called, encrypted for each key pair. Raises
    :class:`UnreadableError`."""
    found: dict[str, dict[str, bytes]] = {}
    for each in backup.run_keys():
        try:
            found[each.id] = {name: base64.b64decode(key) for name, key in each.data_keys.items()}
        except binascii.Error as error:
            raise UnreadableError(backup.keys_file(each.run).path, "a data key is not Base64") from error
    return found


def read_stored_file(backup: BackupPlace, file: SnapshotFile, keys: KeyPairs, shown: str) -> bytes:
    """Return a file of a snapshot that is no segment. ``shown``: its path in messages. Raises
    :class:`UnreadableError`."""
    data = backup.read_file(file)
    if file.stored_sha256 == file.sha256:
        return data
    try:
        found = decrypt_file(data, keys)
    except DecryptionError as error:
        raise UnreadableError(shown, str(error), Kind.REMOTE_KEY_MISSING) from error
    if hashlib.sha256(found).hexdigest() != file.sha256:
        raise UnreadableError(shown, f"this is not the {file.name} that was stored")
    return found


def check_keys(folders: Iterable[Folder], keys: KeyPairs, shown: str) -> None:
    """Raises :class:`UnreadableError` for a key pair that was given and fits no segment, though some are encrypted for
    one of its name. ``folders``: partitions of a backup, with their manifests. ``shown``: its path in messages."""
    wrong, fitting = dict[str, DecryptionError](), set[str]()
    for each in _encryptions(folders) if keys else ():
        found = each
        with suppress(UnreadableError):  # data keys that cannot be read are a finding of what needs them
            found = keys.readable(each)
        name = found.key_id
        if name in fitting or name not in keys:
            continue
        try:
            unwrap(found, keys)
            fitting.add(name)
        except DecryptionError as error:
            wrong.setdefault(name, error)
    for name, error in wrong.items():
        if name not in fitting:
            raise UnreadableError(shown, str(error), Kind.REMOTE_KEY_MISSING) from error


def _encryptions(folders: Iterable[Folder]) -> Iterable[Encryption]:
    """Return how segments are encrypted, once for each data key: those of one run have the same."""
    manifests = (each for folder in folders for each in folder.manifests.values() if isinstance(each, Manifest))
    found = (each.encryption for each in manifests)
    return {each.data_key: each for each in found if each is not None}.values()
