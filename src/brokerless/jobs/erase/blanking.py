"""Blanks values of records: a value becomes null, or some fields of it do, by what it is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from brokerless.errors import UsageError
from brokerless.format.columns import RecordColumns
from brokerless.format.write.column_slices import replace_values
from brokerless.jobs.erase.field_counts import FieldCount
from brokerless.log.directory import PartitionPath
from brokerless.log.storage.paths import full_path
from brokerless.typed.blanking.edits import NotBlankedError
from brokerless.typed.blanking.paths import parse_path
from brokerless.typed.blanking.schemas import RecordedSchemas, RegistrySchemas, SchemaSource
from brokerless.typed.blanking.values import FORMATS, BlankedValue, RawHeader, ValueBlanker
from brokerless.typed.schema_source import load_registry


@dataclass(frozen=True, slots=True)
class Blanking:
    """The parts of selected records that become null, while the records stay. Raises :class:`UsageError` for what is
    not a path, or another format."""

    fields: tuple[str, ...] = ()
    """Paths of fields, as :func:`parse_path` takes them; arrays on the way stand for all their elements. Without any,
    the whole value becomes null."""
    value_format: str = "auto"
    """One of :data:`FORMATS`."""
    schemas: SchemaSource = field(default_factory=RecordedSchemas, compare=False)
    """The schemas of values that name one."""
    schemas_from: str | None = None
    """Where the schemas are from; None for nowhere."""

    def __post_init__(self) -> None:
        for each in self.fields:
            parse_path(each)
        if self.value_format not in FORMATS:
            raise UsageError(f"value format: {self.value_format!r} is none of {', '.join(FORMATS)}")

    @property
    def paths(self) -> list[tuple[str, ...]]:
        return [parse_path(each) for each in self.fields]

    def action(self) -> dict[str, Any]:
        """Return the action as a manifest names it."""
        if not self.fields:
            return {"kind": "blank"}
        found: dict[str, Any] = {
            "kind": "blank",
            "fields": list(map(list, self.paths)),
            "valueFormat": self.value_format,
        }
        return found if self.schemas_from is None else {**found, "schemasFrom": self.schemas_from}

    def blanker(self, topic: str) -> ValueBlanker:
        """Return a blanker for the values of one topic; it belongs to one thread."""
        return ValueBlanker(topic, self.paths, self.schemas, self.value_format)


def blanking_of(
    fields: Sequence[str], value_format: str, schemas: str | None, partitions: Sequence[PartitionPath]
) -> Blanking:
    """Return a blanking of partitions with the schemas in a path or, without one, those of the topic ``_schemas``
    beside the partitions, if any. Raises :class:`UsageError`, and UnreadableError for a path without schemas."""
    if not fields:
        if schemas is not None or value_format != "auto":
            raise UsageError("--schemas and --value-format are for values whose fields are blanked; use --blank-fields")
        return Blanking()
    registry = load_registry(schemas, partitions)
    source = None if registry.source is None else full_path(registry.source)
    return Blanking(tuple(dict.fromkeys(fields)), value_format, RegistrySchemas(registry), source)


RecordEdits = tuple[tuple[int, int, str], ...]
"""What changed of one value, as a manifest has it, one after the other: at which byte of the changed value, how many
bytes were removed there, and the new bytes in hexadecimal digits."""


def blank_values(
    columns: RecordColumns, chosen: NDArray[np.bool_], blanker: ValueBlanker | None, counts: Sequence[FieldCount] = ()
) -> tuple[RecordColumns, dict[int, RecordEdits]] | str:
    """Return the records with the values of ``chosen`` (bool) blanked, wholly without a ``blanker``, and what changed
    of them by offset; or why that is not possible. ``counts``: of the fields, to which these values are added."""
    if blanker is None:
        return replace_values(columns, chosen), {}
    values: list[bytes | None] = []
    edits: dict[int, RecordEdits] = {}
    for offset, value, headers in chosen_values(columns, chosen):
        try:
            found = None if value is None else blanker.blank(value, headers)
        except NotBlankedError as error:
            text = f"the value of offset {offset} {error}, so its fields cannot be blanked"
            return f"{text}; blank the whole value (--blank value), or erase without --blank-fields"
        values.append(None if found is None else found.value)
        edits[offset] = () if found is None else edits_of(found)
        for count, presence in zip(counts, () if found is None else found.presence, strict=found is not None):
            count.add(offset, presence)
    return replace_values(columns, chosen, values), edits


def edits_of(found: BlankedValue) -> RecordEdits:
    """Return what changed of a value, as a manifest has it."""
    edits: list[tuple[int, int, str]] = []
    growth = 0
    for start, end, new in (piece for each in found.edits for piece in each.split()):
        edits.append((start + growth, end - start, new.hex()))
        growth += len(new) - (end - start)
    return tuple(edits)


def chosen_values(
    columns: RecordColumns, rows: NDArray[np.bool_]
) -> Iterator[tuple[int, bytes | None, tuple[RawHeader, ...]]]:
    """Yield the offset, value and headers of each of some rows (bool)."""
    ends, null = columns.value_ends, columns.value_null
    for row in np.flatnonzero(rows).tolist():
        value = None if null[row] else columns.value_data[ends[row] : ends[row + 1]].tobytes()
        yield int(columns.offset[row]), value, tuple(_headers(columns, row))


def _headers(columns: RecordColumns, row: int) -> Iterator[RawHeader]:
    names, values = columns.header_key_ends, columns.header_value_ends
    for at in range(int(columns.header_ends[row]), int(columns.header_ends[row + 1])):
        name = columns.header_key_data[names[at] : names[at + 1]].tobytes()
        is_null = bool(columns.header_value_null[at])
        yield name, None if is_null else columns.header_value_data[values[at] : values[at + 1]].tobytes()
