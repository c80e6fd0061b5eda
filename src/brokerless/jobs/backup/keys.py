"""Lists and changes whose private keys read the data keys of a backup's runs; no segment is written again for that."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence

from msgspec import structs

from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Kind
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.snapshot import KEYS_FILE, RunKeys
from brokerless.log.storage.location import Location
from brokerless.log.storage.object_store import new_object
from brokerless.log.tiered.decryption import DecryptionError, data_key_id, unwrap
from brokerless.log.tiered.detection import backup_at
from brokerless.log.tiered.manifest import Encryption
from brokerless.log.tiered.writing.encryption import DataKey, PublicKey, refuse_same_keys, wrap


def keys_of_run(run_id: str, data_key: DataKey) -> RunKeys:
    """Return what is written of the data key of a run."""
    wrapped = {name: base64.b64encode(key).decode() for name, key in data_key.wrapped.items()}
    own = data_key_id(data_key.wrapped[data_key.key_id])
    return RunKeys(1, run_id, id=own, key_pair=data_key.key_id, data_keys=wrapped)


def change_keys(
    location: Location,
    add: Sequence[PublicKey] = (),
    remove: Collection[str] = (),
    *,
    private_keys: Mapping[str, bytes] | None = None,
) -> list[RunKeys]:
    """Lists the data keys of a backup's runs, after each was encrypted for ``add`` as well, and ``remove`` was taken
    out. ``private_keys`` (PEM): by the names of their key pairs, one of which reads each run.

    Raises :class:`UsageError` for what is no encrypted backup, a name that is there already or is not, and the removal
    of a key pair that manifests name, or of the last but one; UnreadableError where no private key reads a run;
    UnwritableError.
    """
    place, _ = backup_at(location)
    config = place.config()
    if config is None or not config.is_encrypted:
        raise UsageError(f"{place.location}: this backup is not encrypted")
    runs = place.run_keys()
    for name in (each.key_id for each in add if all(each.key_id in run.data_keys for run in runs)):
        raise UsageError(
            f"--add: there is a key pair {name} already, perhaps with another key; give this one another name"
        )
    for name in (each for each in remove if not any(each in run.data_keys for run in runs)):
        there = ", ".join(sorted({each for run in runs for each in run.data_keys}))
        raise UsageError(f"--remove: there is no key pair {name}; there are {there}")
    refuse_same_keys(add)
    changed = [_changed(place, each, add, remove, keys=private_keys or {}) for each in runs]
    for before, after in zip(runs, changed, strict=True):
        if before != after:
            file = place.keys_file(after.run)
            with new_object(file) as sink:
                sink.write(KEYS_FILE.dump(after, file.path))
    return sorted(changed, key=lambda each: each.run)


def _changed(
    place: BackupPlace, run: RunKeys, add: Sequence[PublicKey], remove: Collection[str], keys: Mapping[str, bytes]
) -> RunKeys:
    if run.key_pair in remove:
        text = "the manifests of its segments have the data key for it; whoever has the private key reads them"
        raise UsageError(f"--remove: {run.key_pair} is the first key pair of run {run.run}: {text}")
    found = {name: key for name, key in run.data_keys.items() if name not in remove}
    if add:  # a call that was cut short has added it to some runs
        data_key = _data_key(place, run, keys)
        found |= {each.key_id: base64.b64encode(wrap(data_key, each)).decode() for each in add}
    if len(found) < min(2, len(run.data_keys)):
        raise UsageError("--remove: one key pair would be left, without which nothing is read; add another one first")
    return structs.replace(run, data_keys=found)


def _data_key(place: BackupPlace, run: RunKeys, keys: Mapping[str, bytes]) -> bytes:
    path = place.keys_file(run.run).path
    name = next((each for each in run.data_keys if each in keys), None)
    if name is None:
        text = f"it is encrypted for {', '.join(run.data_keys)}, none of which was given (--key-pair ID=FILE)"
        raise UnreadableError(path, text, Kind.REMOTE_KEY_MISSING)
    try:
        return unwrap(Encryption(name, base64.b64decode(run.data_keys[name]), b""), keys)
    except DecryptionError as error:
        raise UnreadableError(path, str(error), Kind.REMOTE_KEY_MISSING) from error
