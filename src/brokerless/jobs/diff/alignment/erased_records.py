"""Decides which differences the manifest of an erasure accounts for: by the offsets that it names, and the digest that
it has of the other records of each batch.

A manifest holds no erased value, so that an offset alone would excuse a record of any log with the same name. What
stayed of a batch has a digest in it (``keptSha256``), which either side has to have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from brokerless.errors import UsageError
from brokerless.format.arrays import Bools, Int64s
from brokerless.format.columns import RecordColumns
from brokerless.format.write.column_slices import concat_columns, filter_rows, replace_values
from brokerless.jobs.backup_erasure.record import BackupClaim, is_of_backup, parse_claim
from brokerless.jobs.diff.alignment.blocks import Block, compare_rows
from brokerless.jobs.diff.alignment.sides import SideReader
from brokerless.jobs.diff.equal_segments import snapshot_partitions
from brokerless.jobs.diff.pairs import ErasureClaims, Pair, Side
from brokerless.jobs.erase.blanking import chosen_values
from brokerless.jobs.erase.digests import digest_kept
from brokerless.jobs.erase.signed_manifest import load_manifest
from brokerless.jobs.prove.claims import EditClaim, PartitionClaim, parse_claims
from brokerless.kafka_names import TopicPartition
from brokerless.log.partition import Reading, read_partition
from brokerless.log.ranges import Range
from brokerless.progress import ignore

_BATCHES_AT_ONCE = 64
_NEAR = 1 << 14
"""Touched batches are read at once that have at most so many offsets between them, and so many of them."""


def add_erasure(pairs: Sequence[Pair], path: str, right: Side) -> list[Pair]:
    """Return pairs with what the manifest of an erasure has of each. ``right``: the side that it wrote.

    Raises :class:`UsageError` where it has none of them, or is of a backup of which the right side is no snapshot, and
    :class:`UnreadableError` for what is no manifest."""
    manifest = load_manifest(path)
    if is_of_backup(manifest):
        return _add_erasure_of_backup(pairs, path, parse_claim(path, manifest.value), right)
    is_blanking = manifest.value["action"].get("kind") == "blank"
    claims: dict[TopicPartition, list[PartitionClaim]] = defaultdict(list)
    for each in parse_claims(manifest):
        claims[each.topic, each.partition].append(each)
    found = [replace(each, erasure=_claims_of(each, claims, is_blanking=is_blanking)) for each in pairs]
    if pairs and not any(each.erasure is not None for each in found):
        raise UsageError(f"{path}: this manifest has no partition of these, so that nothing can be erased by it")
    return found


def _add_erasure_of_backup(pairs: Sequence[Pair], path: str, claim: BackupClaim, right: Side) -> list[Pair]:
    """Add the records of an erasure in a backup. It has no digests of batches, and that of each segment which it wrote:
    what it says counts where the right side is a snapshot with such a segment."""
    text = "this is the manifest of an erasure in a backup, and the right side is"
    stored = snapshot_partitions(right)
    if stored is None:
        raise UsageError(f"{path}: {text} no snapshot; give URL@SNAPSHOT of that backup")
    offsets: dict[TopicPartition, list[int]] = defaultdict(list)
    for each in claim.segments:
        own = stored.get((each.topic, each.partition))
        if own is not None and any(one.sha256 == each.sha256 for one in own.segments):
            offsets[each.topic, each.partition] += each.erased_offsets
    found = [
        replace(each, erasure=ErasureClaims((), is_blanking=False, offsets=np.array(sorted(erased), np.int64)))
        if (erased := offsets.get(each.place))
        else each
        for each in pairs
    ]
    if pairs and not any(each.erasure is not None for each in found):
        raise UsageError(f"{path}: {text} a snapshot that has no segment of it, so that nothing can be erased by it")
    return found


def _claims_of(
    pair: Pair, claims: Mapping[TopicPartition, list[PartitionClaim]], *, is_blanking: bool
) -> ErasureClaims | None:
    own = claims.get(pair.place, ())
    return ErasureClaims(tuple(own), is_blanking) if own else None


@dataclass(slots=True)
class _Proven:
    """Which touched batches of a claim have the digest of the manifest on either side, as far as that is known."""

    claim: PartitionClaim
    batches: dict[int, bool]


class ErasedRecords:
    """What an erasure did to the left side of a comparison. ``left`` and ``right`` are both sides, as they are read."""

    def __init__(self, erasure: ErasureClaims, left: SideReader, right: SideReader) -> None:
        self._erasure = erasure
        self._sides = [left, *([right] if right.has_same_offsets else [])]
        self._known = [_Proven(each, {}) for each in erasure.claims]

    def removed(self, offsets: Int64s) -> Bools:
        """Return which records (their offsets, ascending) were removed: shape ``(n,)``."""
        if self._erasure.is_blanking:
            return np.zeros(len(offsets), np.bool_)
        if self._erasure.offsets is not None:
            return np.isin(offsets, self._erasure.offsets)
        return self._named(offsets)

    def blanked(self, left: Block, right: Block) -> Bools:
        """Return which records of the right side are those of the left one, row by row, as the erasure blanked them."""
        found = np.zeros(left.rows, np.bool_)
        if not self._erasure.is_blanking or not left.rows:
            return found
        rows = self._named(left.offsets)
        if rows.any():
            ours, theirs = filter_rows(left.columns, rows), filter_rows(right.columns, rows)
            every = np.ones(ours.rows, np.bool_)
            edits = self._edits(ours.offset[: ours.rows])
            values = [_edited(value, edits.get(offset)) for offset, value, _ in chosen_values(ours, every)]
            fields = compare_rows(replace_values(ours, every, values), theirs)
            found[rows] = ~(fields.contents | fields.timestamps | fields.headers)
        return found

    def _edits(self, offsets: Int64s) -> dict[int, tuple[EditClaim, ...]]:
        """The edits of the values at these offsets; none of one that is null now."""
        found: dict[int, tuple[EditClaim, ...]] = {}
        for each in self._known:
            numbers = np.unique(each.claim.interval_of(offsets))
            for number in numbers[numbers >= 0].tolist():
                touched = each.claim.touched[number]
                if touched.edits is not None:
                    found |= dict(zip(touched.selected, touched.edits, strict=True))
        return found

    def _named(self, offsets: Int64s) -> Bools:
        """Return which of these offsets a manifest has as erased, in a batch of which the rest is as it says."""
        found = np.zeros(len(offsets), np.bool_)
        for each in self._known:
            numbers = each.claim.interval_of(offsets)
            for number in np.unique(numbers[numbers >= 0]).tolist():
                rows = numbers == number
                rows[rows] = np.isin(offsets[rows], each.claim.touched[number].offsets)
                if rows.any() and self._is_proven(each, number):
                    found |= rows
        return found

    def _is_proven(self, known: _Proven, number: int) -> bool:
        if number not in known.batches:
            known.batches.clear()  # of those before, no record comes any more
            known.batches.update(dict.fromkeys(_near(known.claim, number), False))
            for side in self._sides:
                rest = [each for each, is_proven in known.batches.items() if not is_proven]
                known.batches.update(dict.fromkeys(self._with_digest(known.claim, rest, side), True))
                if known.batches[number]:
                    break
        return known.batches[number]

    def _with_digest(self, claim: PartitionClaim, numbers: Sequence[int], side: SideReader) -> Iterator[int]:
        """Yield the batches (ascending numbers) of which a side has the other records as they were."""
        parts: dict[int, list[RecordColumns]] = defaultdict(list)
        first, last = claim.touched[numbers[0]].base_offset, claim.touched[numbers[-1]].last_offset
        reading = Reading(Range(first, last + 1), max_batch_bytes=side.settings.max_batch_bytes)
        pending = list(numbers)
        for each in read_partition(side.partition, reading, ignore):
            columns = each.decoded.columns if each.rows is None else filter_rows(each.decoded.columns, each.rows)
            offsets = columns.offset[: columns.rows]
            while pending and claim.touched[pending[0]].last_offset < offsets[0]:
                yield from self._agreeing(claim, pending.pop(0), parts)
            for number in pending:
                touched = claim.touched[number]
                if touched.base_offset > offsets[-1]:
                    break
                rows = (offsets >= touched.base_offset) & (offsets <= touched.last_offset)
                if rows.any():
                    parts[number].append(filter_rows(columns, rows))
        for number in pending:
            yield from self._agreeing(claim, number, parts)

    def _agreeing(self, claim: PartitionClaim, number: int, parts: dict[int, list[RecordColumns]]) -> Iterator[int]:
        own, touched = parts.pop(number, []), claim.touched[number]
        if not own:  # of an empty batch, whatever log it is in
            return
        columns = concat_columns(own)
        selected = np.isin(columns.offset[: columns.rows], touched.offsets)
        if digest_kept(columns, selected, is_blanked=self._erasure.is_blanking) == touched.digest:
            yield number


def _near(claim: PartitionClaim, number: int) -> range:
    """Return a touched batch and those that follow near by."""
    stop, touched = number + 1, claim.touched
    most = min(number + _BATCHES_AT_ONCE, len(touched))
    while stop < most and touched[stop].base_offset - touched[stop - 1].last_offset <= _NEAR:
        stop += 1
    return range(number, stop)


def _edited(value: bytes | None, edits: tuple[EditClaim, ...] | None) -> bytes | None:
    """Return what an erasure made of a value. ``edits``: None where the whole value became null. Their places are those
    of the new value."""
    if edits is None or value is None:
        return None
    pieces, at, growth = list[bytes](), 0, 0
    for start, length, new in edits:
        old = start - growth
        pieces += [value[at:old], bytes.fromhex(new)]
        at = old + length
        growth += len(new) // 2 - length
    return b"".join([*pieces, value[at:]])
