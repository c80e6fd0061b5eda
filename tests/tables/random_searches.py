"""Random logs and filters: what is searched in the bytes of batches finds the same as decoding all of them does.

``python -m tests.tables.random_searches SEEDS [FIRST]`` prints the counts; the suite tries a few. aiokafka writes the
batches: all formats and codecs in one log, transactions with their markers, headers, null and empty keys and values.
Filters are made of parts of what is in there, also across the bounds of records, and combined with ranges. Of each
seed, an intact log and one with flipped bits, or an end that is cut:

- the records are those of the same filter where every batch is decoded, and, of an intact log, those that Python finds;
- so are the findings. Of a log whose batches were written with broken contents and a right checksum, those findings
  alone may be missing that say what is invalid in the records of a batch.
"""

from __future__ import annotations

import random
import re
import struct
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import PropertyMock, patch

from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

import brokerless
from brokerless import Finding, RecordFilter

Row = dict[str, Any]
WORDS = (
    b"",
    b"a",
    b"key-1",
    b"key-12",
    b"\x00",
    b"\x02\x00",
    b"\xff\xfe",
    b"user-4711",
    b"\xc3\xa9",
    b"x" * 70,
    b"0123456789" * 30,
)
NAMES = ("", "trace", "a", "é", "key-1")
KINDS = [(magic, codec) for magic in (0, 1, 2) for codec in range(5) if codec < (3, 4, 5)[magic]]
_ATTRIBUTES, _CRC, _CODED = 21, 17, 61
RECORD_KINDS = {
    "record-invalid",
    "record-count-mismatch",
    "message-invalid",
    "message-checksum-mismatch",
    "offset-order",
}


def some_bytes(chance: random.Random) -> bytes | None:
    if chance.random() < 0.2:
        return None
    return b"".join(chance.choice(WORDS) for _ in range(chance.choice((0, 1, 1, 2, 5))))


def random_batches(chance: random.Random, is_plain: bool = False) -> list[bytes]:
    """The batches of a log. ``is_plain``: without a codec, so that records lie in the file as they are."""
    kinds = [each for each in KINDS if not is_plain or each[1] == 0]
    batches: list[bytes] = []
    offset, now = 0, 1_000
    for magic, codec in sorted(chance.choices(kinds, k=chance.randrange(1, 12)), key=lambda kind: kind[0]):
        count = chance.choice((1, 1, 3, 20))
        is_transactional = magic == 2 and chance.random() < 0.3
        if magic == 2:
            producer = (7, 0, 0) if is_transactional else (-1, -1, -1)
            builder: Any = DefaultRecordBatchBuilder(2, codec, is_transactional, *producer, 1 << 24)
        else:
            builder = LegacyRecordBatchBuilder(magic, codec, 1 << 24)
        for place in range(count):
            now += chance.choice((0, 1, 500))
            headers = [(chance.choice(NAMES), some_bytes(chance)) for _ in range(chance.choice((0, 0, 2)))]
            relative = place if magic or codec else 0
            builder.append(relative, now, some_bytes(chance), some_bytes(chance), headers if magic == 2 else [])
        batch = bytearray(builder.build())
        if magic == 2:
            batches.append(_at(batch, offset))
        elif codec:
            if not magic:  # inner offsets are absolute
                batch = _legacy(chance, codec, offset, count, now)
            batches.append(bytes((offset + count - 1).to_bytes(8, "big") + batch[8:]))
        else:
            at = 0
            for place in range(count):
                batch[at : at + 8] = (offset + place).to_bytes(8, "big")
                at += 12 + int.from_bytes(batch[at + 8 : at + 12], "big")
            batches.append(bytes(batch))
        offset += count
        if is_transactional:
            batches.append(_marker(offset, now, is_commit=chance.random() < 0.5))
            offset += 1
    return batches


def _legacy(chance: random.Random, codec: int, offset: int, count: int, now: int) -> bytearray:
    builder = LegacyRecordBatchBuilder(0, codec, 1 << 24)
    for place in range(count):
        builder.append(offset + place, now, some_bytes(chance), some_bytes(chance), [])
    return bytearray(builder.build())


def _at(batch: bytearray, offset: int) -> bytes:
    batch[:8] = offset.to_bytes(8, "big")
    return bytes(batch)


def _marker(offset: int, now: int, *, is_commit: bool) -> bytes:
    builder: Any = DefaultRecordBatchBuilder(2, 0, True, 7, 0, -1, 1 << 24)
    builder.append(0, now, struct.pack(">hh", 0, int(is_commit)), struct.pack(">hi", 0, 0), [])
    batch = bytearray(builder.build())
    batch[_ATTRIBUTES + 1] |= 0x20
    return _at(checked(batch), offset)


def checked(batch: bytearray) -> bytearray:
    """A v2 batch with the checksum of what it has."""
    batch[_CRC:_ATTRIBUTES] = calc_crc32c(bytes(batch[_ATTRIBUTES:])).to_bytes(4, "big")
    return batch


def random_filter(chance: random.Random, rows: Sequence[Row], data: bytes) -> RecordFilter:
    """A filter by what some of the records have, or by any bytes of the file."""
    given: dict[str, Any] = {}
    row = chance.choice(rows)
    kinds = chance.sample(("keys", "grep", "header", "key_regex"), chance.choice((1, 1, 2)))
    if "keys" in kinds:
        others = [chance.choice(rows)["key"] for _ in range(chance.choice((0, 1, 3, 20)))]
        given["keys"] = [each for each in [row["key"], *others] if each is not None] or [b""]
    if "grep" in kinds:
        texts = [each for each in (row["key"], row["value"], *(pair["value"] for pair in row["headers"])) if each]
        text = chance.choice([*texts, data, data])
        start = chance.randrange(len(text))
        given["grep"] = text[start : start + chance.choice((1, 2, 3, 9, 40))]
    if "header" in kinds:
        pairs = [pair for pair in row["headers"] if pair["value"] is not None] or [{"key": "a", "value": b"key-1"}]
        pair = chance.choice(pairs)
        given["header"] = pair["key"], pair["value"]
    if "key_regex" in kinds:
        text = (row["key"] or b"key-1").decode("latin-1")
        start = chance.randrange(max(len(text), 1))
        literal = re.escape("".join(each for each in text[start : start + 6] if each.isascii() and each.isprintable()))
        given["key_regex"] = chance.choice(
            (literal, f"^{literal}", f"{literal}|user-4[7]", f"(?:{literal}|Z)$", "[^a]+1")
        )
    return RecordFilter(**given)


def random_range(chance: random.Random, rows: Sequence[Row]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    one, other = sorted((chance.choice(rows) for _ in range(2)), key=lambda row: row["offset"])
    if chance.random() < 0.4:
        given |= {"start_offset": one["offset"], "end_offset": other["offset"] + 1}
    if chance.random() < 0.3:
        given |= {"start_timestamp": one["timestamp"]}
    if chance.random() < 0.3:
        given |= {"isolation": "read_committed"}
    return given


def holds(row: Row, selection: RecordFilter) -> bool:
    """Return whether a record is selected, by Python."""
    pairs = [(each["key"].encode(), each["value"]) for each in row["headers"]]
    texts = [
        each for each in (row["key"], row["value"], *(part for pair in pairs for part in pair)) if each is not None
    ]
    if selection.keys is not None and row["key"] not in selection.keys:
        return False
    if selection.grep is not None and not any(selection.grep in each for each in texts):
        return False
    if selection.header is not None and (selection.header[0].encode(), selection.header[1]) not in pairs:
        return False
    regex = selection.key_regex
    return regex is None or (row["key"] is not None and re.search(regex.encode(), row["key"]) is not None)


def read(path: Path, selection: RecordFilter | None, given: dict[str, Any]) -> tuple[list[Row], list[Finding]]:
    findings: list[Finding] = []
    columns = ["offset", "timestamp", "key", "value", "headers"]
    records = brokerless.open(path).records(columns, filter=selection, on_damage=findings.append, **given)
    return records.read_all().to_pylist(), findings


def compare(path: Path, selection: RecordFilter, given: dict[str, Any]) -> tuple[list[Row], set[Finding]]:
    """What is found, and the findings that only decoding all has."""
    found, findings = read(path, selection, given)
    with patch.object(RecordFilter, "any_of", new_callable=PropertyMock, return_value=()):
        expected, of_all = read(path, selection, given)
    assert found == expected, (selection, given)
    assert [each for each in of_all if each in findings] == findings, (selection, given)
    return found, {each for each in of_all if each not in findings}


def break_contents(chance: random.Random, batches: Sequence[bytes]) -> bytes:
    """The log with some of its v2 batches written with other contents, and the checksum of these."""
    broken = [bytearray(each) for each in batches]
    for each in broken:
        if each[16] == 2 and len(each) > _CODED and chance.random() < 0.5:
            each[chance.randrange(_CODED, len(each))] ^= 1 << chance.randrange(8)
            checked(each)
    return b"".join(broken)


def search(seed: int, directory: Path) -> Counter[str]:
    """Try one seed; return how much there was to find."""
    chance, counts = random.Random(seed), Counter[str]()
    batches = random_batches(chance, is_plain=seed % 3 == 0)
    path, data = directory / f"{seed}-0" / f"{0:020}.log", b"".join(batches)
    path.parent.mkdir()
    path.write_bytes(data)
    rows, findings = read(path, None, {})
    assert rows, seed
    assert not findings, seed
    filters = [(random_filter(chance, rows, data), random_range(chance, rows)) for _ in range(4)]
    for selection, given in filters:
        found, missing = compare(path, selection, given)
        assert not missing, (seed, selection, given, missing)
        assert found == [row for row in read(path, None, given)[0] if holds(row, selection)], (seed, selection, given)
        counts["records"] += len(rows)
        counts["found"] += len(found)
    damaged = bytearray(data)
    for _ in range(chance.choice((1, 1, 3))):
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
    path.write_bytes(damaged[: chance.choice((len(damaged), len(damaged), chance.randrange(1, len(damaged) + 1)))])
    for selection, given in filters:
        _, missing = compare(path, selection, given)
        assert not missing, (seed, selection, given, missing)
        counts["of damaged logs"] += 1
    path.write_bytes(break_contents(chance, batches))
    for selection, given in filters:
        _, missing = compare(path, selection, given)
        assert {each.kind for each in missing} <= RECORD_KINDS, (seed, selection, given, missing)
        counts["findings of contents that were not looked at"] += len(missing)
    return counts


def main(seeds: int, first: int = 0) -> None:
    counts = Counter[str]()
    for seed in range(first, first + seeds):
        with tempfile.TemporaryDirectory() as directory:
            counts += search(seed, Path(directory))
    print(seeds, "seeds:", ", ".join(f"{count} {name}" for name, count in counts.items()))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
