"""Schemas of Iceberg's tables, tried before anything is committed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from brokerless.table_formats.column_types import plain_field
from brokerless.table_formats.types import check_schema, lacking


def fields(table: Any, *, include_ids: bool) -> dict[str, pa.Field]:
    """Return the columns of a table by name, with Iceberg's field IDs or without."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    schema = schema_to_pyarrow(table.schema(), include_field_ids=include_ids)
    return {each.name: plain_field(each) for each in schema}


def columns(table: Any) -> pa.Schema:
    """Return the columns of a table."""
    return pa.schema(list(fields(table, include_ids=False).values()))


def has_columns(table: Any, schema: pa.Schema) -> bool:
    """Return whether a table has all columns of a schema, with all fields of them."""
    return not lacking(columns(table), schema)


def check(table: Any, schema: pa.Schema, topic: str, *, where: str) -> None:
    """Refuse a schema with which pyiceberg could not read the table any more. ``table``: None for a new one."""
    if table is None or not has_columns(table, schema):
        check_schema("pyiceberg", schema, topic, where=where, attempt=lambda own: _try(table, own))


def _try(table: Any, schema: pa.Schema) -> None:
    """Read the metadata of a table that has evolved to ``schema``, of which nothing is committed. ``table``: None for a
    new one."""
    from pyiceberg.io import load_file_io
    from pyiceberg.io.pyarrow import schema_to_pyarrow
    from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadataUtil, new_table_metadata
    from pyiceberg.table.sorting import UNSORTED_SORT_ORDER

    if table is None:
        empty: Any = new_table_metadata(Schema(), UNPARTITIONED_PARTITION_SPEC, UNSORTED_SORT_ORDER, "")
        nothing: Any = None  # as for the catalogue, which a commit alone needs
        table = Table(("trial",), empty, metadata_location="", io=load_file_io({}, ""), catalog=nothing)
    transaction = table.transaction()
    with transaction.update_schema() as update:
        update.union_by_name(schema)
    metadata = TableMetadataUtil.parse_raw(transaction.table_metadata.model_dump_json())
    schema_to_pyarrow(metadata.schema()).empty_table()
