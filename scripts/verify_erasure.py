"""Checks the manifest of an erasure without brokerless: by aiokafka's record parser and the library cryptography.

    python scripts/verify_erasure.py MANIFEST [--public-key FILE] [--erased DIR] [--source DIR] [--keys FILE [--base64]]

It checks signature, hashes of all files, that other batches and records are the same, and erased ones are gone (of
blanked fields: that the bytes that the manifest names are others); with --source, the logs of before, and that no
erased value is in a file or inflated record (a note: in another record, or by chance); with --keys, that no record has
one. Prints violations; exits with 0, 1, 2.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import re
import struct
import sys
import zlib
from bisect import bisect_right
from pathlib import Path
from typing import Any, NamedTuple

from aiokafka.record.memory_records import MemoryRecords
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

INTERNAL = {f"__{each}" for each in ("consumer_offsets", "transaction_state", "share_group_state",
                                     "remote_log_metadata", "cluster_metadata")}  # fmt: skip


_TEXT_FILE = re.compile(rb"\d+\n\d+\n(?:(?:\S+ )?-?\d+ -?\d+\n)*|version: 0\ntopic_id: [\w-]{22}\n?")


def records_of(entry: bytes) -> list[Any]:
    batch = MemoryRecords(entry).next_batch()
    if batch is None or not batch.validate_crc():
        raise ValueError("a checksum does not match")
    return [(each.offset, -1 if each.timestamp is None else each.timestamp, each.key, each.value,
             [(name.encode(), value) for name, value in each.headers]) for each in batch]  # fmt: skip


def digest(records: list[Any]) -> str:
    """As the manifest's ``keptSha256``: number, offsets, timestamps, then lengths and bytes of each field."""

    def column(values: list[bytes | None]) -> bytes:
        lengths = struct.pack(f">{len(values)}i", *(-1 if each is None else len(each) for each in values))
        return lengths + b"".join(each or b"" for each in values)

    count, headers = len(records), [header for record in records for header in record[4]]
    found = struct.pack(f">i{2 * count}q", count, *(r[0] for r in records), *(r[1] for r in records))
    found += column([r[2] for r in records]) + column([r[3] for r in records])
    found += struct.pack(f">{count}i", *(len(r[4]) for r in records))
    return hashlib.sha256(found + column([h[0] for h in headers]) + column([h[1] for h in headers])).hexdigest()


def edited(value: bytes, edits: list[tuple[int, int, str]]) -> tuple[bytes, list[bytes]]:
    """A value as it has to be after edits, and what they remove."""
    if edits and value[:2] == b"\3\5" and value[18:19] == b"x":  # AWS Glue's, compressed
        value = value[:1] + b"\0" + value[2:18] + zlib.decompress(value[18:])
    gone = list[bytes]()
    for at, length, new in edits:
        gone.append(value[at : at + length])
        value = value[:at] + bytes.fromhex(new) + value[at + length :]
    return value, gone


def is_left(value: Any, path: list[str]) -> bool:
    """Whether there is something in a blanked field of JSON."""
    if path and isinstance(value, list):
        return any(is_left(each, path) for each in value)
    inner = value.get(path[0]) if path and isinstance(value, dict) else None
    return is_left(inner, path[1:]) if path and inner is not None else not path


def is_chance(name: str, data: bytes, pattern: bytes) -> bool:
    """Whether bytes may be in a file as numbers, topics or IDs that Kafka writes, which are all that the file has."""
    if (size := {"index": 8, "timeindex": 12, "txnindex": 34, "snapshot": 1}.get(name.rpartition(".")[2])) is None:
        return bool(_TEXT_FILE.fullmatch(data))
    is_text = len(pattern) >= 8 and pattern.decode(errors="replace").isprintable() and b"\0" not in pattern
    return not is_text and len(data) % size == 0 and (size > 1 or data[:2] == b"\0\1")


class Partition(NamedTuple):
    """Checks one partition's directory, ``before`` or ``after``; or, after, the files of a log directory."""

    claim: dict[str, Any]
    path: Path
    when: str
    keys: set[bytes]
    patterns: set[bytes]
    after: dict[tuple[str, int], bytes | None]
    errors: list[str]

    def check(self) -> None:
        files = {each["name"]: each for each in self.claim[self.when]}
        there = {path.name for path in self.path.iterdir() if not path.match(".*lock") or path.stat().st_size}
        for name in sorted((there - self.claim["known"]) ^ files.keys()):
            self.errors.append(f"{self.path / name}: {'missing' if name in files else 'not in the manifest'}")
        untouched, kept = hashlib.sha256(), dict[int, list[Any]]()
        for name in sorted(files.keys() & there):
            data = (self.path / name).read_bytes()
            if hashlib.sha256(data).hexdigest() != files[name]["sha256"]:
                self.errors.append(f"{self.path / name}: another SHA-256")
            is_searched = self.when == "after" and name[-4:] != ".log"
            for pattern in (each for each in self.patterns if is_searched and each in data):
                if is_chance(name, data, pattern):
                    print(f"note: {self.path / name}: the bytes of an erased value, by chance")
                else:
                    self.errors.append(f"{self.path / name}: the bytes of an erased value")
            if name.endswith(".log"):
                try:
                    self.check_log(data, untouched, kept)
                except Exception as error:
                    self.errors.append(f"{self.path / name}: {type(error).__name__}: {error}")
        if self.claim.get("isCopied"):
            logs = [[each for each in self.claim[when] if each["name"][-4:] == ".log"] for when in ("before", "after")]
            if logs[1] != logs[0][len(logs[0]) - len(logs[1]) :] or (logs[0] and not logs[1]):
                self.errors.append(f"{self.path}: said to be copied, but its segments are not the same")
            if self.claim["topic"] not in INTERNAL and not self.keys:
                self.errors.append(f"{self.path}: said to be copied; without --keys, nothing is proved of it")
        if not self.claim.get("isCopied", True) and untouched.hexdigest() != self.claim["untouchedSha256"]:
            self.errors.append(f"{self.path}: the batches that were not touched are others")
        for number, each in enumerate(self.claim.get("touched", ())):
            if digest(kept.get(number, [])) != each["keptSha256"]:
                self.errors.append(f"{self.path}: other records at offset {each['baseOffset']}")

    def check_log(self, data: bytes, untouched: Any, kept: dict[int, list[Any]]) -> None:
        touched, bases, at = self.claim["touched"], [each["baseOffset"] for each in self.claim["touched"]], 0
        while at < len(data):
            offset, size = struct.unpack_from(">qi", data, at)
            entry = data[at : at + 12 + size]  # a batch; of v0 and v1, a message
            if size <= 0 or len(entry) < 12 + size:
                raise ValueError(f"no whole batch at byte {at}")
            at += 12 + size
            if offset + (struct.unpack_from(">i", entry, 23)[0] if entry[16] >= 2 else 0) < self.claim["startOffset"]:
                continue
            number = bisect_right(bases, offset) - 1
            if number >= 0 and offset <= touched[number]["lastOffset"]:
                offsets = touched[number]["offsets"]
                erased = dict(zip(offsets, touched[number].get("edits", [[]] * len(offsets)), strict=True))
                kept.setdefault(number, []).extend(self.without_erased(records_of(entry), erased))
            else:
                untouched.update(entry)
            if (self.keys or self.patterns) and self.when == "after":
                self.look(entry)

    def without_erased(self, records: list[Any], erased: dict[int, list[tuple[int, int, str]]]) -> Any:
        is_blanked, fields = self.claim["action"]["kind"] == "blank", self.claim["action"].get("fields", [])
        for record in records:
            offset, value, edits = record[0], record[3], erased.get(record[0])
            is_json = not self.claim["typed"] and all(each[2] in ("", b"null".hex()) for each in edits or ())
            if edits is not None and self.when == "before":
                after, gone = edited(value, edits) if fields and value is not None else (None, [value or b""])
                self.after[self.claim["source"], offset] = after
                self.patterns.update(each for each in gone if len(each) >= 4)
            elif edits is not None:
                is_there = value is None if edits else value is not None and not fields
                is_there |= any((value or b"")[at : at + len(new) // 2].hex() != new for at, _, new in edits)
                is_there |= is_json and any(is_left(json.loads(value or b"0"), path) for path in fields)
                if is_there or not is_blanked or self.after.get((self.claim["source"], offset), value) != value:
                    self.errors.append(f"{self.path}: what was erased at offset {offset} is there, or more is changed")
            if edits is None or is_blanked:
                yield record if edits is None else (*record[:3], None, record[4])

    def look(self, entry: bytes) -> None:
        is_passed_over = (entry[16] >= 2 and entry[22] & 0x20) or self.claim["topic"] in INTERNAL
        for offset, _, key, value, headers in () if is_passed_over else records_of(entry):
            if key in self.keys and self.claim["action"]["kind"] == "remove":
                self.errors.append(f"{self.path}: an erased key at offset {offset}")
            found = [each for each in (key, value, *(value for _, value in headers)) if each is not None]
            if any(pattern in each for each in found for pattern in self.patterns):
                print(f"note: {self.path}: the bytes of an erased value are in another record, offset {offset}")


def place(recorded: str, directory: Path | None) -> Path:
    nested = [directory / Path(recorded).name, directory.joinpath(*Path(recorded).parts[-2:])] if directory else []
    return next((path for path in nested if path.is_dir()), directory or Path(recorded))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    for name in ("manifest", "--source", "--keys"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--public-key", "--key", dest="key", type=Path)
    parser.add_argument("--erased", "--output", dest="output", type=Path)
    parser.add_argument("--base64", action="store_true")
    options = parser.parse_args(arguments)
    data, signature = options.manifest.read_bytes(), Path(f"{options.manifest}.sig")
    manifest = json.loads(data)
    errors = [] if manifest["directories"] else [f"{options.manifest}: the erasure was stopped before its end"]
    if options.key or manifest["publicKey"] or signature.exists():
        key = load_pem_public_key(options.key.read_bytes()) if options.key else None
        try:
            key = key or Ed25519PublicKey.from_public_bytes(bytes.fromhex(manifest["publicKey"]))
            key.verify(signature.read_bytes(), data)  # type: ignore[union-attr, call-arg]
        except Exception as error:
            errors.append(f"{signature}: the signature is wrong ({type(error).__name__})")
    lines = options.keys.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines() if options.keys else []
    keys, patterns = {base64.b64decode(each) if options.base64 else each for each in lines if each}, set[bytes]()
    after, typed = dict[tuple[str, int], bytes | None](), manifest.get("schemas")
    errors += [f"{each['source']}: was not written: {each['reason']}" for each in manifest.get("notWritten", ())]
    roots = {str(Path(each["target"]).parent) for each in manifest["directories"]} & {manifest["to"]}
    others = [*manifest["directories"], *({"target": each, "after": []} for each in roots)]
    for when, directory in (("before", options.source), ("after", options.output)):
        known = dict[Path, set[str]]()
        claims = [*manifest["partitions"], *(others if when == "after" else ())] if when == "after" or directory else []
        paths = [place(each["source" if when == "before" else "target"], directory) for each in claims]
        if when == "after" and len(set(paths)) < len(paths):
            raise ValueError("two partitions of the manifest are one here")
        for path in (*paths, options.manifest.resolve(), signature.resolve()):
            known.setdefault(path.parent.resolve(), set()).add(path.name)
        for claim, path in zip(claims, paths, strict=True):
            more = {"action": manifest["action"], "known": known.get(path.resolve(), set()), "typed": typed}
            Partition(claim | more, path, when, keys, patterns, after, errors).check()
    print("\n".join(errors or [f"{len(manifest['partitions'])} partitions: the proof holds"]))
    return 1 if errors else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception as error:
        print(f"cannot be checked: {type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(2)
