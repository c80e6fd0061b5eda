"""Decides which records differ by the IDs of their schemas alone, and whether these are IDs of the same schema.

A registry gives each schema an ID of its own, so that what was copied into a cluster with another registry has other
bytes where keys and values, or headers, name their schema (:mod:`brokerless.typed.framing`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from brokerless.arrow import Column
from brokerless.format.arrays import Bools, Int64s
from brokerless.format.columns import RecordColumns
from brokerless.jobs.diff.alignment.blocks import Block, compare_rows
from brokerless.tables.record_batches import contents_batch
from brokerless.tables.record_filter import is_in
from brokerless.typed import framing
from brokerless.typed.framing import Frame, Frames
from brokerless.typed.registry import Registry, Schema, is_same_schema
from brokerless.typed.schema_source import load_registry

_PLACES = {framing.CONFLUENT: (1, 4), framing.APICURIO: (1, 8)}
_OF_GLUE = (2, 16)
"""Where an ID is in a key or value, and how many bytes it has."""


@dataclass(frozen=True, slots=True)
class SchemaPaths:
    """Where the schemas of both sides are, as :func:`load_registry` takes it."""

    left: str
    right: str


class SchemaIds:
    """The schemas that both sides name for the records of ``topic``."""

    def __init__(self, paths: SchemaPaths, topic: str | None) -> None:
        self._paths, self._topic = paths, topic
        self._known: dict[tuple[str, Frame, Frame], bool | None] = {}

    def compare(self, left: Block, right: Block) -> tuple[Bools, Bools]:
        """Return which records, row by row, differ by IDs of the same schema alone, and which by those of others: bool,
        shape ``(n,)``; neither of them where an ID is not known. Raises UnreadableError for schemas that cannot be
        read."""
        ours, theirs = _Framed(left.columns), _Framed(right.columns)
        fields = compare_rows(ours.without_ids(), theirs.without_ids())
        is_only = ~(fields.contents | fields.headers | fields.timestamps)
        have_ids, are_same = np.zeros(left.rows, np.bool_), np.ones(left.rows, np.bool_)
        for side in ("key", "value"):
            one, other = ours.frames[side], theirs.frames[side]
            pairs = np.stack([one.codes, other.codes], axis=1)
            distinct, inverse = np.unique(pairs, axis=0, return_inverse=True)
            for number, (code, its) in enumerate(distinct.tolist()):
                frame, its_frame = _frame(one, code), _frame(other, its)
                if frame == its_frame:
                    continue
                rows = inverse.ravel() == number
                if frame is None or its_frame is None or replace(frame, id=0) != replace(its_frame, id=0):
                    is_only &= ~rows
                    continue
                have_ids |= rows
                is_same = self._is_same(side, frame, its_frame) if (is_only & rows).any() else None
                if is_same is None:
                    is_only &= ~rows
                elif not is_same:
                    are_same &= ~rows
        found = is_only & have_ids
        return found & are_same, found & ~are_same

    def _is_same(self, side: str, frame: Frame, other: Frame) -> bool | None:
        """Return whether two IDs are of the same schema; None where one of them is not known."""
        key = side, frame, other
        if key not in self._known:
            one, two = (
                _find(registry, each, self._topic, side)
                for registry, each in zip(self._registries, (frame, other), strict=True)
            )
            self._known[key] = None if one is None or two is None else is_same_schema(one, two)
        return self._known[key]

    @cached_property
    def _registries(self) -> tuple[Registry, Registry]:
        left = load_registry(self._paths.left, ())
        return left, left if self._paths.left == self._paths.right else load_registry(self._paths.right, ())


def _find(registry: Registry, frame: Frame, topic: str | None, side: str) -> Schema | None:
    if frame.framing != framing.CONFLUENT and registry.is_topic:  # whose IDs are others
        return None
    if topic is None:
        return registry.find(frame.id)
    return registry.find(frame.id, registry.of_topic(topic, side)[0], f"{topic}-{side}")


def _frame(frames: Frames, code: int) -> Frame | None:
    return frames.known[code] if code >= 0 else None


class _Framed:
    """Records with what they name as their schemas."""

    def __init__(self, columns: RecordColumns) -> None:
        self._columns = columns
        batch = contents_batch(columns)
        self._headers: Column = batch.column("headers")
        self.frames = {side: framing.find_frames(batch.column(side), side, self._headers) for side in ("key", "value")}
        """The frames of keys, and those of values."""

    def without_ids(self) -> RecordColumns:
        """Return the records with zeros for all IDs of schemas."""
        columns, changed = self._columns, dict[str, Any]()
        for side, frames in self.frames.items():
            starts, data = getattr(columns, f"{side}_ends")[: columns.rows], getattr(columns, f"{side}_data")
            for code, frame in enumerate(frames.known):
                rows = np.flatnonzero(frames.codes == code)
                if not frame.in_header and len(rows):
                    at, width = _PLACES.get(frame.framing, _OF_GLUE)
                    data = changed.setdefault(f"{side}_data", data.copy())
                    data[starts[rows][:, None].astype(np.int64) + np.arange(at, at + width)] = 0
        places = self._header_places()
        if len(places):
            values = columns.header_value_data.copy()
            values[places] = 0
            changed["header_value_data"] = values
        return replace(columns, **changed)

    def _header_places(self) -> Int64s:
        """The bytes of headers that name a schema."""
        names = [name for side in ("key", "value") for name in framing.id_headers(side)]
        keys: Column = self._headers.values.field(0)
        if not len(keys):
            return np.zeros(0, np.int64)
        is_id = is_in(keys.view(pa.binary()), names)
        ends = self._columns.header_value_ends[: len(keys) + 1].astype(np.int64)
        lengths = np.where(is_id, np.diff(ends), 0)
        firsts = np.repeat(ends[:-1] - np.append(0, np.cumsum(lengths)[:-1]), lengths)
        return firsts + np.arange(int(lengths.sum()))
