"""Pairs the partitions of two sides as a request says: by name, by an offset map, or by MirrorMaker's offset syncs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from brokerless.errors import UsageError
from brokerless.jobs.diff.alignment.erased_records import add_erasure
from brokerless.jobs.diff.alignment.schema_ids import SchemaPaths
from brokerless.jobs.diff.mirrors import load_offset_syncs, pair_by_syncs
from brokerless.jobs.diff.pairs import Name, OffsetRuns, Pair, Side, load_offset_runs, pair, pair_by_map
from brokerless.progress import Report
from brokerless.requests.comparing import DiffRequest
from brokerless.tables.read_options import bound
from brokerless.typed.schema_source import TOPIC


def check_pairing(request: DiffRequest) -> None:
    """Raise :class:`UsageError` for options of which one says another offset than the other."""
    if request.offset_map is not None and request.offset_syncs is not None:
        raise UsageError("give --offset-map or --offset-syncs, not both")
    if request.erasure is not None and (request.offset_syncs is not None or request.align == "key"):
        text = "the manifest of an erasure names offsets, by which records are not paired here"
        raise UsageError(f"{text}; leave --erasure out")


def requested_schemas(request: DiffRequest, sides: tuple[Side, Side]) -> SchemaPaths | None:
    """Return where the schemas of both sides are; None where one side has none. ``sides``: with all of their
    partitions."""
    left, right = (
        next((each.path for one in side.directories for each in one.partitions if each.topic == TOPIC), None)
        for side in sides
    )
    if request.schemas is not None:
        left, right = os.fspath(request.schemas), right or os.fspath(request.schemas)
    right = right if request.right_schemas is None else os.fspath(request.right_schemas)
    return None if left is None or right is None else SchemaPaths(left, right)


def requested_runs(request: DiffRequest) -> Mapping[Name, OffsetRuns] | None:
    """Return the offset map of a request, if it has one. Raises :class:`UsageError` for a directory without one."""
    return None if request.offset_map is None else load_offset_runs(os.fspath(request.offset_map))


def requested_pairs(
    request: DiffRequest, sides: tuple[Side, Side], runs: Mapping[Name, OffsetRuns] | None, report: Report
) -> list[Pair]:
    """Return the partitions of both sides. ``runs``: the offset map.

    Raises :class:`UsageError` where what says which offsets are the same has none of them, and UnreadableError."""
    if request.offset_syncs is not None:
        syncs = load_offset_syncs(os.fspath(request.offset_syncs), report, bound(request.max_batch_bytes))
        return pair_by_syncs(*sides, syncs)
    pairs = pair(*sides) if runs is None else pair_by_map(*sides, runs)
    return pairs if request.erasure is None else add_erasure(pairs, os.fspath(request.erasure))
