"""Schemas of Delta's tables: how one is made and evolves, with the features of the protocol that its types need, and
tried elsewhere before anything is committed."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from brokerless.table_formats.column_types import plain_field
from brokerless.table_formats.rows import DATE
from brokerless.table_formats.types import check_schema, lacking

LOG = "_delta_log"
"""The directory of a table's log."""
_FEATURES_FROM = 7
"""The version of writers from which a protocol names features; before, each version implies some."""
_IN_USE = {"delta.appendOnly": "AppendOnly", "delta.enableChangeDataFeed": "ChangeDataFeed"}
"""The properties of tables that an older protocol's features keep, which the newer one has to name; tables with other
rules for their rows are refused."""

_OF_FILES = {"deletionVectors", "v2Checkpoint", "delta.enableDeletionVectors", "delta.checkpointPolicy"}
"""Features of a table's data files and log, which no schema needs, and the properties that name them: deltalake's
reader for Arrow refuses tables that have them, and its others read them."""


def columns(table: Any) -> pa.Schema:
    """Return the columns of a table, without ``date``."""
    schema = pa.schema(table.schema().to_arrow())
    return pa.schema([plain_field(each) for each in schema if each.name != DATE])


def make_table(path: str, schema: pa.Schema, topic: str, options: dict[str, str]) -> None:
    """Make a topic's empty table, which lacks local times in maps yet: :func:`evolve` adds them."""
    from deltalake import Schema
    from deltalake.transaction import create_table_with_add_actions

    fields = [own for own in map(_without_local_times_in_maps, schema) if own is not None]
    create_table_with_add_actions(
        path, Schema.from_arrow(pa.schema(fields)), [], partition_by=[DATE], name=topic, storage_options=options
    )


def evolve(table: Any, schema: pa.Schema) -> None:
    """Add to a table the columns and fields of ``schema`` that it lacks, after the features that they need."""
    from deltalake import Schema

    new = lacking(columns(table), schema)
    if not new:
        return
    if any(_has_local_times(each.type) for each in new):
        _allow_local_times(table)
    table.alter.add_columns(Schema.from_arrow(pa.schema(new)).fields)


def check(table: Any, schema: pa.Schema, topic: str, *, where: str) -> None:
    """Refuse a schema with which deltalake could not read the table any more. ``table``: None for a new one."""
    if table is None or lacking(columns(table), schema):
        check_schema("deltalake", schema, topic, where=where, attempt=lambda own: _try(table, own, topic))


def _try(table: Any, schema: pa.Schema, topic: str) -> None:
    """Evolve an empty table of the same protocol and columns to ``schema``, and read it with deltalake."""
    from deltalake import DeltaTable

    with tempfile.TemporaryDirectory(prefix="brokerless-delta-") as directory:
        if table is None:
            make_table(directory, pa.schema([*schema, pa.field(DATE, pa.date32())]), topic, {})
        else:
            log = Path(directory, LOG)
            log.mkdir()
            (log / f"{0:020d}.json").write_text("".join(f"{json.dumps(each)}\n" for each in _first_actions(table)))
        evolve(DeltaTable(directory), schema)
        pa.table(DeltaTable(directory).to_pyarrow_table())


def _first_actions(table: Any) -> list[dict[str, Any]]:
    protocol, metadata = table.protocol(), table.metadata()
    versions: dict[str, Any] = {
        "minReaderVersion": protocol.min_reader_version,
        "minWriterVersion": protocol.min_writer_version,
    }
    for name, features in (("readerFeatures", protocol.reader_features), ("writerFeatures", protocol.writer_features)):
        if features is not None:
            versions[name] = [each for each in features if each not in _OF_FILES]
    own = {
        "id": str(metadata.id),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": table.schema().to_json(),
        "partitionColumns": metadata.partition_columns,
        "configuration": {name: each for name, each in metadata.configuration.items() if name not in _OF_FILES},
    }
    return [{"protocol": versions}, {"metaData": own}]


def _allow_local_times(table: Any) -> None:
    """Name the feature ``timestampNtz`` in the table's protocol: deltalake 1.6 does it by itself for columns, structs
    and lists, not for maps. Of older features, it drops those that are not named with it."""
    from deltalake import TableFeatures

    protocol = table.protocol()
    if "timestampNtz" in (protocol.writer_features or ()):
        return
    configuration = table.metadata().configuration
    is_older = protocol.min_writer_version < _FEATURES_FROM
    in_use = [own for name, own in _IN_USE.items() if is_older and configuration.get(name, "").lower() == "true"]
    features = [getattr(TableFeatures, name) for name in (*in_use, "TimestampWithoutTimezone")]
    table.alter.add_feature(features, allow_protocol_versions_increase=True)


def _has_local_times(type_: Any) -> bool:
    t = pa.types
    if t.is_nested(type_):
        return any(_has_local_times(type_.field(number).type) for number in range(type_.num_fields))
    return t.is_timestamp(type_) and type_.tz is None


def _without_local_times_in_maps(field: pa.Field) -> pa.Field | None:
    type_: Any = field.type
    t = pa.types
    if t.is_map(type_):
        return None if _has_local_times(type_) else field
    if t.is_list(type_):
        item = _without_local_times_in_maps(type_.value_field)
        return None if item is None else field.with_type(pa.list_(item))
    if not t.is_struct(type_):
        return field
    inner = [own for own in map(_without_local_times_in_maps, type_) if own is not None]
    return field.with_type(pa.struct(inner)) if inner else None
