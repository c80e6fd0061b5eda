"""Searches what a backup has beside segments for bytes that were erased: ``files/*``, whichever snapshots name them."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from brokerless.errors import UnreadableError
from brokerless.findings import Finding
from brokerless.format.read.decoder import Decoder, decode_whole
from brokerless.jobs.prove.search import PatternSearch
from brokerless.log import names
from brokerless.log.backups.place import BackupPlace
from brokerless.log.backups.snapshot import SnapshotFile
from brokerless.log.segment import check_checksums, scan
from brokerless.log.storage.files import File, RemoteFile
from brokerless.log.storage.location import DirectoryEntry
from brokerless.log.storage.side_by_side import side_by_side
from brokerless.log.tiered.decryption import DecryptionError, KeyPairs, decrypt_file
from brokerless.log.tiered.listing.encrypted_backup import read_stored_file
from brokerless.progress import Done, Report

_LARGEST = 1 << 30


def search_files(
    place: BackupPlace, search: PatternSearch, keys: KeyPairs, max_batch_bytes: int, report: Report, done: Done
) -> int:
    """Look into all stored files, decrypted; return how many there are. Snapshots of the metadata are searched as the
    records that they are. One that cannot be read is reported: what it has is not known."""
    known = {each.stored_sha256: each for each in _named_files(place)}
    config = place.config()
    is_encrypted = config is not None and config.is_encrypted
    entries = place.file_directory.find_entries()
    for entry in entries:
        file = known.get(entry.name)
        search.counts.clear()
        try:
            data = _data(place, entry, file, keys, is_encrypted=is_encrypted)
            name = entry.name if file is None else file.name.rpartition("/")[2]
            opened = RemoteFile(name, io.BytesIO(data), len(data), None)
            _search(opened, search, max_batch_bytes, partial(_report_at, report, entry.path))
        except UnreadableError as error:
            text = f"whether this has erased records is not known: {error}"
            report(UnreadableError(entry.path, text).finding(entry.path))
        done(entry.size or 0)
    return len(entries)


def _named_files(place: BackupPlace) -> Iterator[SnapshotFile]:
    """Yield the files that snapshots name; snapshots that cannot be read are reported elsewhere."""
    places = [place, place.forgotten(), *(part for each in place.sets() for part in place.parts(each))]
    named = [(own, name) for own in places for name in own.names()]

    def load(at: int) -> tuple[SnapshotFile, ...]:
        own, name = named[at]
        try:
            return own.snapshot(name).files
        except UnreadableError:
            return ()

    for files in side_by_side(load, range(len(named)), place.location.is_remote):
        yield from files


def _data(
    place: BackupPlace, entry: DirectoryEntry, file: SnapshotFile | None, keys: KeyPairs, *, is_encrypted: bool
) -> bytes:
    if file is not None:
        return read_stored_file(place, file, keys, entry.path)
    data = entry.location.read(_LARGEST)
    try:
        return decrypt_file(data, keys) if is_encrypted else data
    except DecryptionError as error:
        raise UnreadableError(entry.path, str(error)) from error


def _search(file: File, search: PatternSearch, max_batch_bytes: int, report: Report) -> None:
    name = names.parse_segment_file(file.path)
    if name is None or name.kind != "kraft-snapshot":
        search.look_in_file(file, report)
        return
    decoder = Decoder(max_batch_bytes=max_batch_bytes)
    for chunk in scan(file, report):
        valid = check_checksums(chunk, file.path, report)
        for decoded in decode_whole(decoder, chunk.buffer, chunk.batches.take(valid), chunk.base):
            nothing = np.zeros(decoded.columns.rows, np.bool_)
            search.look_in_records(decoded.columns, nothing, file.path, report)


def _report_at(report: Report, path: str, finding: Finding) -> None:
    report(replace(finding, file=path))
