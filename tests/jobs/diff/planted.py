"""Random logs and one planted difference of each kind, with the causes that a comparison should find and no others."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from brokerless.format.control import build_transaction_marker
from brokerless.format.write.builder import BatchAttributes, BatchBuilder
from brokerless.format.write.encoder import Encoder
from brokerless.log import names

START = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True)
class ModelRecord:
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


@dataclass(frozen=True)
class ModelBatch:
    """``marker``: whether it is one of a transaction that was committed, or aborted; None of records."""

    records: tuple[ModelRecord, ...]
    codec: str = "none"
    leader_epoch: int = 3
    producer: tuple[int, int, int] = (-1, -1, -1)
    is_transactional: bool = False
    marker: bool | None = None

    @property
    def first(self) -> int:
        return self.records[0].offset

    def encoded(self) -> bytes:
        producer_id, epoch, sequence = self.producer
        if self.marker is not None:
            when = self.records[0].timestamp
            columns, header = build_transaction_marker(
                producer_id, epoch, self.first, when, self.marker, 7, self.leader_epoch
            )
            return Encoder().encode(columns, np.array([0, 1]), header).tobytes()
        facts = BatchAttributes(
            self.first, None, producer_id, epoch, sequence, self.is_transactional, False, self.leader_epoch
        )
        builder = BatchBuilder(1 << 20, codec=self.codec, attributes=facts)
        for each in self.records:
            builder.append(each.timestamp, each.key, each.value, list(each.headers), each.offset)
        return builder.close()


Batches = list[ModelBatch]


def random_log(chance: random.Random, batches: int = 40) -> Batches:
    """Batches of all codecs and sizes; each record has a key of its own, or none."""
    found: Batches = []
    offset, sequence = chance.choice([0, 1000]), 0
    for _ in range(batches):
        count = chance.choice([1, 1, 2, 5, 30])
        producer = (77, 0, sequence) if chance.random() < 0.3 else (-1, -1, -1)
        sequence += count if producer[0] > 0 else 0
        records = tuple(random_record(chance, offset + number) for number in range(count))
        found.append(ModelBatch(records, chance.choice(CODECS), producer=producer))
        offset += count + (chance.choice([0, 0, 0, 4]))
    return found


def random_record(chance: random.Random, offset: int) -> ModelRecord:
    key = chance.choice([None, b"", b"%d" % offset, b"key-%d" % offset])
    value = b"%d " % offset + chance.choice([b"", chance.randbytes(chance.randrange(300)), b"abc" * 500])
    headers = (("trace", b"%d" % offset), ("empty", None)) if chance.random() < 0.3 else ()
    return ModelRecord(offset, START + offset * 1000 - chance.choice([0, 0, 5000]), key, value, headers)


def write(
    directory: Path, batches: Batches, chance: random.Random, *, segments: int | None = None, cleaned: int | None = None
) -> Path:
    """A partition of segments that begin anywhere. ``cleaned``: up to which offset the cleaner's checkpoint has it."""
    partition = directory / "topic-0"
    partition.mkdir(parents=True)
    more = chance.randrange(4) if segments is None else segments - 1
    starts = sorted({0, *chance.sample(range(1, len(batches)), min(len(batches) - 1, more))})
    for start, stop in zip(starts, [*starts[1:], len(batches)], strict=True):
        path = partition / names.segment_file(batches[start].first, "log")
        path.write_bytes(b"".join(each.encoded() for each in batches[start:stop]))
    if cleaned is not None:
        (directory / names.CLEANER_CHECKPOINT).write_text(f"0\n1\ntopic 0 {cleaned}\n")
    return partition


@dataclass
class Planted:
    """Two logs, and what a comparison should find: records by cause, and how many are missing, extra and changed."""

    left: Batches
    right: Batches
    causes: dict[str, int] = field(default_factory=dict)
    missing: int = 0
    extra: int = 0
    changed: int = 0
    is_cleaned: bool = False


Plant = Callable[[random.Random, Batches], Planted]


def _inner(chance: random.Random, log: Batches, least: int = 1) -> int:
    """A batch of at least so many records, neither the first nor the last."""
    return chance.choice([at for at in range(1, len(log) - 1) if len(log[at].records) >= least])


def _with(log: Batches, at: int, *batches: ModelBatch) -> Batches:
    return [*log[:at], *batches, *log[at + 1 :]]


def _count(batches: Batches) -> int:
    return sum(len(each.records) for each in batches)


def nothing(chance: random.Random, log: Batches) -> Planted:
    return Planted(log, list(log))


def retention(chance: random.Random, log: Batches) -> Planted:
    at = chance.randrange(1, len(log))
    causes = {"retention": _count(log[:at])}
    return chance.choice([Planted(log, log[at:], causes), Planted(log[at:], log, causes)])


def lagging(chance: random.Random, log: Batches) -> Planted:
    at = chance.randrange(1, len(log))
    count = _count(log[at:])
    if chance.random() < 0.5:
        return Planted(log, log[:at], {"lagging": count}, missing=count)
    return Planted(log[:at], log, {"lagging": count}, extra=count)


def regrouped(chance: random.Random, log: Batches) -> Planted:
    at = chance.choice(
        [row for row in range(1, len(log) - 1) if log[row].producer == log[row + 1].producer == (-1, -1, -1)]
    )
    one, other = log[at : at + 2]
    joined = replace(one, records=one.records + other.records)
    return Planted(log, [*log[:at], joined, *log[at + 2 :]], {"regrouped": _count([one, other])})


def recompressed(chance: random.Random, log: Batches) -> Planted:
    at = _inner(chance, log)
    codec = chance.choice([each for each in CODECS if each != log[at].codec])
    return Planted(log, _with(log, at, replace(log[at], codec=codec)), {"recompressed": len(log[at].records)})


def restamped(chance: random.Random, log: Batches) -> Planted:
    at = _inner(chance, log)
    return Planted(log, _with(log, at, replace(log[at], leader_epoch=2)), {"restamped": len(log[at].records)})


def _changed(chance: random.Random, log: Batches, **fields: object) -> Batches:
    at = _inner(chance, log)
    records = list(log[at].records)
    row = chance.randrange(len(records))
    records[row] = replace(records[row], **fields)  # type: ignore[arg-type]
    return _with(log, at, replace(log[at], records=tuple(records)))


def timestamps(chance: random.Random, log: Batches) -> Planted:
    return Planted(log, _changed(chance, log, timestamp=START + 7), {"timestamps": 1}, changed=1)


def headers(chance: random.Random, log: Batches) -> Planted:
    new = chance.choice([(("other", b"1"),), (("trace", b"1"), ("empty", None)), (("trace", b"1"), ("empty", b""))])
    return Planted(log, _changed(chance, log, headers=new), {"headers": 1}, changed=1)


def changed(chance: random.Random, log: Batches) -> Planted:
    fields = chance.choice(
        [{"value": b"other"}, {"value": None}, {"key": b"other"}, {"value": b"x", "timestamp": START}]
    )
    return Planted(log, _changed(chance, log, **fields), {"changed": 1}, changed=1)


def order(chance: random.Random, log: Batches) -> Planted:
    at = _inner(chance, log, 2)
    records = list(log[at].records)
    one, other = chance.sample(range(len(records)), 2)
    first, second = records[one], records[other]
    records[one], records[other] = replace(second, offset=first.offset), replace(first, offset=second.offset)
    return Planted(log, _with(log, at, replace(log[at], records=tuple(records))), {"order": 2}, changed=2)


def missing(chance: random.Random, log: Batches) -> Planted:
    at = _inner(chance, log)
    count = len(log[at].records)
    return Planted(log, [*log[:at], *log[at + 1 :]], {"missing": count}, missing=count)


def extra(chance: random.Random, log: Batches) -> Planted:
    planted = missing(chance, log)
    return Planted(planted.right, planted.left, {"extra": planted.missing}, extra=planted.missing)


def missing_in_batch(chance: random.Random, log: Batches) -> Planted:
    at = _inner(chance, log, 2)
    records = list(log[at].records)
    row = chance.randrange(1, len(records))
    records[row] = replace(records[row], key=b"only here")
    left = _with(log, at, replace(log[at], records=tuple(records)))
    del records[row]
    right = _with(log, at, replace(log[at], records=tuple(records)))
    rest = {} if row < len(records) else {"regrouped": len(records)}  # the batch ends before it
    return Planted(left, right, {"missing": 1, **rest}, missing=1)


def _twice(chance: random.Random, log: Batches, producer: tuple[int, int, int]) -> Planted:
    """The right side has a batch twice, the left side nothing at these offsets."""
    at = _inner(chance, log)
    count = len(log[at].records)
    shifted = [
        replace(each, records=tuple(replace(one, offset=one.offset + count) for one in each.records))
        for each in log[at + 1 :]
    ]
    first = replace(log[at], producer=producer)
    again = replace(first, records=tuple(replace(one, offset=one.offset + count) for one in first.records))
    left = [*log[:at], first, *shifted]
    causes = {"duplicate": count}
    right = [*log[:at], first, again, *shifted]
    if chance.random() < 0.5:
        return Planted(right, left, causes, missing=count)
    return Planted(left, right, causes, extra=count)


def duplicate_by_sequence(chance: random.Random, log: Batches) -> Planted:
    return _twice(chance, log, (88, 1, 0))


def duplicate_neighbour(chance: random.Random, log: Batches) -> Planted:
    one_record = [replace(each, records=each.records[:1]) for each in log]
    return _twice(chance, one_record, (-1, -1, -1))


def aborted(chance: random.Random, log: Batches) -> Planted:
    """The right side has neither the data of a transaction that was aborted nor its marker."""
    at = _inner(chance, log)
    data = replace(log[at], producer=(99, 0, 0), is_transactional=True)
    marker_offset = data.records[-1].offset + 1
    shifted = [
        replace(each, records=tuple(replace(one, offset=one.offset + 1) for one in each.records))
        for each in log[at + 1 :]
    ]
    when = ModelRecord(marker_offset, START, None, None)
    left = [*log[:at], data, ModelBatch((when,), producer=(99, 0, -1), is_transactional=True, marker=False), *shifted]
    return Planted(left, [*log[:at], *shifted], {"aborted": len(data.records), "control": 1})


def compaction(chance: random.Random, log: Batches) -> Planted:
    """The right side was compacted: some records with a later one of their key are gone, some keys with a tombstone
    altogether, and records without a key."""
    keys = [b"k%d" % number for number in range(12)]
    tombstoned = {chance.choice(keys)}
    left = [
        replace(each, records=tuple(replace(one, key=chance.choice([*keys, None])) for one in each.records))
        for each in log
    ]
    last = {one.key: one.offset for each in left for one in each.records}
    left = [
        replace(
            each,
            records=tuple(
                replace(one, value=None) if one.key in tombstoned and last[one.key] == one.offset else one
                for one in each.records
            ),
        )
        for each in left
    ]
    removed = {
        one.offset
        for each in left[:-1]
        for one in each.records
        if one.key is None or one.key in tombstoned or (one.offset < last[one.key] and chance.random() < 0.8)
        if one.key not in tombstoned or last[one.key] < left[-1].first
    }
    removed.discard(left[0].first)
    right: Batches = []
    regrouped = 0
    for each in left:
        kept = tuple(one for one in each.records if one.offset not in removed)
        if not kept:
            continue
        right.append(replace(each, records=kept))
        if len(kept) < len(each.records):
            has_bounds = (kept[0], kept[-1]) == (each.records[0], each.records[-1])
            regrouped += len(kept) * (not has_bounds)
    causes = {"compaction": len(removed), "regrouped": regrouped}
    causes = {name: count for name, count in causes.items() if count}
    return Planted(left, right, causes, is_cleaned=True)


PLANTS: dict[str, Plant] = {
    each.__name__: each
    for each in (
        nothing, retention, lagging, regrouped, recompressed, restamped, timestamps, headers, changed, order, missing,
        extra, missing_in_batch, duplicate_by_sequence, duplicate_neighbour, aborted, compaction,
    )
}  # fmt: skip
