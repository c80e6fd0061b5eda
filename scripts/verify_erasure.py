"""Checks the manifest of an erasure without brokerless: by aiokafka's record parser and the library cryptography.

    python scripts/verify_erasure.py MANIFEST [--key PUBLIC.pem] [--output DIR] [--source DIR] [--keys FILE]

It checks signature, hashes of files, that untouched batches and the other records of touched ones are the same, that no
erased record is left; with --source, the logs of before, and that no erased value is in any file or inflated record;
with --keys (text), that no record has one. Prints violations, and as notes what other records share with erased ones;
exits 0 without violations, 1 with some, 2 for what it cannot read.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import struct
import sys
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from aiokafka.record.memory_records import MemoryRecords
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

Record = tuple[int, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]
LEAST = 4


def entries(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The entries of a log file (batches, and messages of v0 and v1): offset, and all bytes."""
    at = 0
    while at + 12 <= len(data):
        offset, size = struct.unpack_from(">qi", data, at)
        if size <= 0 or at + 12 + size > len(data):
            raise ValueError(f"no whole batch at byte {at}")
        yield offset, data[at : at + 12 + size]
        at += 12 + size
    if at != len(data):
        raise ValueError("bytes are left")


def last_offset(offset: int, entry: bytes) -> int:
    return offset + struct.unpack_from(">i", entry, 23)[0] if entry[16] >= 2 else offset


def records_of(entry: bytes) -> list[Record]:
    batch = MemoryRecords(entry).next_batch()
    if batch is None or not batch.validate_crc():
        raise ValueError("a checksum does not match")
    found: list[Record] = []
    for each in batch:
        headers = [(name.encode(), value) for name, value in each.headers]
        timestamp = -1 if each.timestamp is None else each.timestamp
        found.append((each.offset, timestamp, each.key, each.value, headers))
    return found


def digest(records: list[Record]) -> str:
    """As the manifest's ``keptSha256``: number, offsets, timestamps, then lengths and bytes of each field."""

    def column(values: list[bytes | None]) -> bytes:
        lengths = struct.pack(f">{len(values)}i", *(-1 if each is None else len(each) for each in values))
        return lengths + b"".join(each or b"" for each in values)

    count, headers = len(records), [header for record in records for header in record[4]]
    parts = [struct.pack(">i", count), struct.pack(f">{count}q", *(record[0] for record in records))]
    parts += [struct.pack(f">{count}q", *(record[1] for record in records))]
    parts += [column([record[2] for record in records]), column([record[3] for record in records])]
    parts += [struct.pack(f">{count}i", *(len(record[4]) for record in records))]
    parts += [column([name for name, _ in headers]), column([value for _, value in headers])]
    return hashlib.sha256(b"".join(parts)).hexdigest()


class Partition:
    """Checks one partition's directory, ``before`` or ``after``."""

    def __init__(self, claim: dict[str, Any], path: Path, when: str, action: dict[str, Any]) -> None:
        self.claim, self.path, self.when, self.action = claim, path, when, action
        self.touched = claim["touched"]
        self.bases = [each["baseOffset"] for each in self.touched]
        self.errors: list[str] = []
        self.values: list[bytes] = []

    def check(self, keys: set[bytes], patterns: list[bytes]) -> None:
        files = {each["name"]: each for each in self.claim[self.when]}
        for name in sorted({path.name for path in self.path.iterdir()} ^ files.keys()):
            self.errors.append(f"{self.path / name}: {'missing' if name in files else 'not in the manifest'}")
        untouched, kept = hashlib.sha256(), dict[int, list[Record]]()
        for name in sorted(files.keys() & {path.name for path in self.path.iterdir()}):
            data = (self.path / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != files[name]["sha256"]:
                self.errors.append(f"{self.path / name}: another SHA-256")
            if self.when == "after" and name[-4:] != ".log" and any(pattern in data for pattern in patterns):
                self.errors.append(f"{self.path / name}: the bytes of an erased value")
            if name.endswith(".log"):
                try:
                    self.check_log(data, untouched, kept, keys, patterns)
                except Exception as error:
                    self.errors.append(f"{self.path / name}: {type(error).__name__}: {error}")
        if self.claim["isCopied"]:
            return
        if untouched.hexdigest() != self.claim["untouchedSha256"]:
            self.errors.append(f"{self.path}: the batches that were not touched are others")
        for number, each in enumerate(self.touched):
            if digest(kept.get(number, [])) != each["keptSha256"]:
                self.errors.append(f"{self.path}: other records at offset {each['baseOffset']}")

    def check_log(
        self, data: bytes, untouched: Any, kept: dict[int, list[Record]], keys: set[bytes], patterns: list[bytes]
    ) -> None:
        for offset, entry in entries(data):
            if last_offset(offset, entry) < self.claim["startOffset"]:
                continue
            number = bisect_right(self.bases, offset) - 1
            is_touched = number >= 0 and offset <= self.touched[number]["lastOffset"]
            if not is_touched:
                untouched.update(entry)
            if is_touched or ((keys or patterns) and self.when == "after"):
                records = records_of(entry)
                if is_touched:
                    kept.setdefault(number, []).extend(
                        self.without_erased(records, set(self.touched[number]["offsets"]))
                    )
                self.look(records, entry, keys, patterns)

    def without_erased(self, records: list[Record], offsets: set[int]) -> Iterator[Record]:
        is_blanked = self.action["kind"] == "blank"
        for offset, timestamp, key, value, headers in records:
            if offset not in offsets:
                yield offset, timestamp, key, value, headers
                continue
            if self.when == "before":
                self.values += [value] if value is not None and len(value) >= LEAST else []
            elif not is_blanked or (value is not None and not self.action.get("fields")):
                self.errors.append(f"{self.path}: what was erased at offset {offset} is there")
            if is_blanked:
                yield offset, timestamp, key, None, headers

    def look(self, records: list[Record], entry: bytes, keys: set[bytes], patterns: list[bytes]) -> None:
        if self.when == "before" or (entry[16] >= 2 and entry[22] & 0x20) or self.claim["isCopied"]:
            return
        for offset, _, key, value, headers in records:
            if key in keys and self.action["kind"] == "remove":
                self.errors.append(f"{self.path}: an erased key at offset {offset}")
            fields = [each for each in (key, value, *(value for _, value in headers)) if each is not None]
            if any(pattern in each for each in fields for pattern in patterns):
                print(f"note: {self.path}: the bytes of an erased value are in another record, offset {offset}")


def place(recorded: str, directory: Path | None) -> Path:
    if directory is None:
        return Path(recorded)
    name, above = Path(recorded).name, Path(recorded).parent.name
    there = [path for path in (directory / name, directory / above / name) if path.is_dir()]
    return there[0] if there else directory


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("manifest", type=Path)
    for name in ("--key", "--output", "--source", "--keys"):
        parser.add_argument(name, type=Path)
    options = parser.parse_args(arguments)
    data = options.manifest.read_bytes()
    manifest, errors = json.loads(data), list[str]()
    signature = Path(f"{options.manifest}.sig")
    if options.key or manifest["publicKey"] or signature.exists():
        try:
            key = load_pem_public_key(options.key.read_bytes()) if options.key else None
            key = key or Ed25519PublicKey.from_public_bytes(bytes.fromhex(manifest["publicKey"]))
            key.verify(signature.read_bytes(), data)  # type: ignore[union-attr, call-arg]
        except (InvalidSignature, ValueError, TypeError, OSError) as error:
            errors.append(f"{signature}: the signature is wrong ({type(error).__name__})")
    keys = {line for line in options.keys.read_bytes().splitlines() if line} if options.keys else set[bytes]()
    patterns: list[bytes] = []
    for when, directory in (("before", options.source), ("after", options.output)):
        for claim in manifest["partitions"] if when == "after" or directory else ():
            partition = Partition(
                claim, place(claim["source" if when == "before" else "target"], directory), when, manifest["action"]
            )
            partition.check(keys, patterns if when == "after" else [])
            errors += partition.errors
            patterns += partition.values if not manifest["action"].get("fields") else []
    print("\n".join(errors) if errors else f"{len(manifest['partitions'])} partitions: the proof holds")
    return 1 if errors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (OSError, ValueError, KeyError, TypeError) as error:
        print(f"cannot be checked: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)
