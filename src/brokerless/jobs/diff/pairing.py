"""Pairs the partitions of two sides as a request says: by name, by an offset map, or by MirrorMaker's offset syncs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from brokerless.errors import UsageError
from brokerless.jobs.diff.alignment.erased_records import add_erasure
from brokerless.jobs.diff.alignment.schema_ids import SchemaPaths
from brokerless.jobs.diff.beside.groups import Counterpart
from brokerless.jobs.diff.beside.mirrored_position import mirrored_position
from brokerless.jobs.diff.equal_segments import add_equal_segments
from brokerless.jobs.diff.exported.listing import TablePartition
from brokerless.jobs.diff.exported.topic_decoding import topic_decodings
from brokerless.jobs.diff.mirrors import load_offset_syncs, pair_by_syncs
from brokerless.jobs.diff.pairs import OffsetRuns, Pair, Side, load_offset_runs, pair, pair_by_map
from brokerless.jobs.diff.topics import TopicPair
from brokerless.kafka_names import TopicPartition
from brokerless.log.directory import PartitionPath
from brokerless.log.names import is_internal
from brokerless.progress import Report
from brokerless.requests.comparing import DiffRequest
from brokerless.tables.read_options import bound
from brokerless.typed.schema_source import TOPIC, load_registry
from brokerless.typed.topic_type import Decoding


def check_pairing(request: DiffRequest) -> None:
    """Raise :class:`UsageError` for options of which one says another offset than the other."""
    if request.offset_map is not None and request.offset_syncs is not None:
        raise UsageError("give --offset-map or --offset-syncs, not both")
    if request.erasure is not None and (request.offset_syncs is not None or request.align == "key"):
        text = "the manifest of an erasure names offsets, by which records are not paired here"
        raise UsageError(f"{text}; leave --erasure out")


def requested_schemas(request: DiffRequest, sides: tuple[Side, Side]) -> SchemaPaths | None:
    """Return where the schemas of both sides are; None where one side has none. ``sides``: with all of their
    partitions.

    Raises :class:`UnreadableError` where the request says that schemas are and there are none, and
    :class:`UsageError` for those of the right side that are compared with none."""
    for path, side in zip((request.schemas, request.right_schemas), sides, strict=True):
        if path is not None:
            load_registry(os.fspath(path), side.partitions)
    left, right = (
        next((each.path for one in side.directories for each in one.partitions if each.topic == TOPIC), None)
        for side in sides
    )
    if request.schemas is not None:
        left, right = os.fspath(request.schemas), right or os.fspath(request.schemas)
    if request.right_schemas is not None:
        right = os.fspath(request.right_schemas)
        if left is None:
            text = "--right-schemas: the left side has no topic _schemas to compare with"
            raise UsageError(f"{text}; say by --schemas where its schemas are")
    return None if left is None or right is None else SchemaPaths(left, right)


def requested_runs(request: DiffRequest) -> Mapping[TopicPartition, OffsetRuns] | None:
    """Return the offset map of a request, if it has one. Raises :class:`UsageError` for a directory without one."""
    return None if request.offset_map is None else load_offset_runs(os.fspath(request.offset_map))


def requested_pairs(
    request: DiffRequest, sides: tuple[Side, Side], runs: Mapping[TopicPartition, OffsetRuns] | None, report: Report
) -> list[Pair]:
    """Return the partitions of both sides. ``runs``: the offset map.

    Raises :class:`UsageError` where what says which offsets are the same has none of them, and UnreadableError."""
    if request.offset_syncs is not None:
        syncs = load_offset_syncs(os.fspath(request.offset_syncs), report, bound(request.max_batch_bytes))
        left, right = sides
        return pair_by_syncs(left, replace(right, partitions=_possible_mirrors(right)), syncs)
    pairs = add_equal_segments(pair(*sides), sides) if runs is None else pair_by_map(*sides, runs)
    return pairs if request.erasure is None else add_erasure(pairs, os.fspath(request.erasure), sides[1])


def with_decodings(pairs: Sequence[Pair], request: DiffRequest) -> list[Pair]:
    """Return pairs with how bytes are decoded that are compared with a decoded table. Raises :class:`UsageError`."""
    found = topic_decodings(((each.left, each.right) for each in pairs), requested_decoding(request))
    if found and request.erasure is not None:
        text = "the manifest of an erasure has digests of bytes, and a decoded table has none"
        raise UsageError(f"{text}; leave --erasure out")
    return [replace(each, decoding=found.get(_table_topic(each))) for each in pairs] if found else list(pairs)


def _table_topic(pair: Pair) -> str:
    is_left = isinstance(pair.left, TablePartition) and pair.left.decoded is not None
    table = pair.left if is_left else pair.right
    return "" if table is None else table.topic or ""


def requested_decoding(request: DiffRequest) -> Decoding:
    """Return what a request says of decoding. Raises :class:`UsageError` for an unknown format."""
    schemas = None if request.schemas is None else os.fspath(request.schemas)
    return Decoding(schemas, request.key_format or "auto", request.value_format or "auto")


def check_formats(request: DiffRequest, pairs: Sequence[Pair | TopicPair]) -> None:
    """Raise :class:`UsageError` for formats of keys and values where nothing is decoded."""
    if (request.key_format or request.value_format) and all(each.decoding is None for each in pairs):
        text = "--key-format and --value-format are for records that are compared with a decoded table, and none are"
        raise UsageError(f"{text} here; leave them out")


def _possible_mirrors(side: Side) -> list[PartitionPath]:
    """The partitions of a side under whatever names: mirrors have others than those that are selected."""
    selected = {each.path for each in side.partitions}
    every = [one for each in side.directories for one in each.partitions]
    return [each for each in every if not is_internal(each.topic) or each.path in selected]


def targets_of(
    pairs: Sequence[Pair], runs: Mapping[TopicPartition, OffsetRuns] | None, max_batch_bytes: int
) -> Mapping[TopicPartition, Counterpart] | None:
    """Return where positions of the left side are on the right one, by partition; None where offsets are the same.
    ``runs``: the offset map."""
    if runs is not None:
        return {name: Counterpart(name, each.target_bound) for name, each in runs.items()}
    mirrored = [each for each in pairs if each.anchors is not None]
    if not mirrored:
        return None
    return {
        each.place: Counterpart(
            each.right.place,
            partial(mirrored_position, each, max_batch_bytes=max_batch_bytes),
        )
        for each in mirrored
        if each.is_restored and each.left is not None and each.right is not None
    }
