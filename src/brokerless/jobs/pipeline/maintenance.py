"""Keeps tables of Iceberg and Delta healthy: merges small files, expires old states, removes files that none needs.

Each merge is one commit that takes the small files away and adds the large one, so that readers see each record once.
What an export recorded is in the table's properties and earlier commits, which a merge does not change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from brokerless import arrow
from brokerless.clock import epoch_ms
from brokerless.log.storage import guarded_files, paths
from brokerless.table_formats.iceberg.tables import data_file
from brokerless.table_formats.parquet_bounds import columns_with_bounds, floats_without_bounds
from brokerless.table_formats.rows import DATE

_FEW = 4
"""So many small files of a day stay unmerged: a merge rewrites all of their bytes."""
_SMALL = 2
"""A file of less than one so-manieth of the size that files should have is small."""
_OF_A_COMMIT = 32
"""Merged files; a commit that is lost to another writer's costs that much work."""
_SUFFIXES = (".parquet", ".avro", ".metadata.json")


def maintain_iceberg(table: Any, file_bytes: int, keep_s: int) -> None:
    """Merges small files of a table into files of about ``file_bytes``, expires snapshots older than ``keep_s``
    seconds, and removes files of the table's directory that no snapshot left has."""
    groups = list(_small_files(table, file_bytes))
    for number in range(0, len(groups), _OF_A_COMMIT):
        _merge(table, groups[number : number + _OF_A_COMMIT])
        table.refresh()
    before = datetime.now(UTC) - timedelta(seconds=keep_s)
    before_ms = epoch_ms(before)
    current = table.current_snapshot()
    is_old = [each.timestamp_ms < before_ms for each in table.metadata.snapshots if each != current]
    if any(is_old):
        known = set(_needed(table))
        table.maintenance.expire_snapshots().older_than(before.replace(tzinfo=None)).commit()
        table.refresh()
        needed = set(_needed(table))
        for path in sorted(known - needed):
            with suppress(Exception):  # a reader needs none of them
                table.io.delete(path)
        _remove_orphans(table, needed, before.timestamp())


def _small_files(table: Any, file_bytes: int) -> Iterator[list[Any]]:
    """Data files that become one, each group of one day."""
    days: dict[str, list[Any]] = {}
    spec_id = table.spec().spec_id
    for task in table.scan().plan_files():
        is_whole = not task.delete_files and task.file.spec_id == spec_id
        if is_whole and task.file.file_size_in_bytes * _SMALL < file_bytes:
            days.setdefault(str(task.file.partition), []).append(task.file)
    for files in days.values():
        group: list[Any] = []
        size = 0
        for each in sorted(files, key=lambda file: file.file_path):
            group.append(each)
            size += each.file_size_in_bytes
            if size >= file_bytes:
                yield group
                group, size = [], 0
        if len(group) >= _FEW:
            yield group


def _merge(table: Any, groups: list[list[Any]]) -> None:
    """One file in the place of each group, in one commit."""
    merged = [_merged(table, files) for files in groups]
    with table.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
        for each in (file for files in groups for file in files):
            update.delete_data_file(each)
        for each in merged:
            update.append_data_file(each)


def _merged(table: Any, files: list[Any]) -> Any:
    """Writes several files of a day as one, row group after row group."""
    from pyiceberg.io.pyarrow import pyarrow_to_schema, schema_to_pyarrow

    now = table.schema().as_struct()
    schema = schema_to_pyarrow(table.schema())
    names = table.name_mapping()  # of files without IDs
    path = f"{files[0].file_path.rpartition('/')[0]}/merged-{uuid4().hex}.parquet"
    output = table.io.new_output(path)
    with_nan: set[str] = set()
    for each in files:
        with table.io.new_input(each.file_path).open() as source:
            with_nan |= floats_without_bounds(pq.read_metadata(source))
    bounds: Any = [each for each in columns_with_bounds(schema, ()) if each not in with_nan]
    with (
        output.create() as sink,
        pq.ParquetWriter(sink, schema, compression="zstd", write_statistics=bounds) as writer,
    ):
        for each in files:
            with table.io.new_input(each.file_path).open() as source:
                file = pq.ParquetFile(source)
                own = pyarrow_to_schema(file.schema_arrow, name_mapping=names).as_struct()
                for group in range(file.num_row_groups):
                    rows = file.read_row_group(group)
                    columns = _columns(rows.columns, own, now, types=schema, rows=len(rows))
                    writer.write_table(pa.Table.from_arrays(columns, schema=schema))
    with output.to_input_file().open() as source:
        footer = pq.read_metadata(source)
    return data_file(table, path, footer, size=len(output), partition=files[0].partition)


def _columns(columns: Any, own: Any, now: Any, *, types: Any, rows: int) -> list[Any]:
    """The columns, or the fields of a struct, that a table has now, of a file that was written before its schema
    evolved: by their IDs, as names may have been given to others since. ``own``, ``now``: Iceberg's types. ``types``:
    Arrow's fields, with the names of ``now``."""
    known = {each.field_id: (column, each.field_type) for column, each in zip(columns, own.fields, strict=True)}
    found: list[Any] = []
    for each, field in zip(now.fields, types, strict=True):
        if each.field_id in known:
            column, type_ = known[each.field_id]
            found.append(_column(_one_array(column), type_, each.field_type, into=field.type))
        else:
            found.append(pa.nulls(rows, field.type))
    return found


def _one_array(column: Any) -> Any:
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def _column(column: Any, own: Any, now: Any, *, into: Any) -> Any:
    """One of :func:`_columns`."""
    t = pa.types
    if own == now or not t.is_nested(into):
        return column if column.type.equals(into) else column.cast(into)
    rows, nulls = len(column), column.null_count
    if t.is_struct(into):
        fields = [column.field(number) for number in range(column.type.num_fields)]
        children = _columns(fields, own, now, types=into, rows=rows)
        return pa.Array.from_buffers(into, rows, column.buffers()[:1], nulls, children=children)
    if t.is_map(into):
        keys = _column(column.keys, own.key_type, now.key_type, into=into.key_type)
        items = _column(column.items, own.value_type, now.value_type, into=into.item_type)
        entries = pa.StructArray.from_arrays([keys, items], fields=[into.key_field, into.item_field])
        return pa.Array.from_buffers(into, rows, column.buffers()[:2], nulls, children=[entries])
    list_of = pa.large_list if t.is_large_list(into) else pa.list_
    known = column.cast(list_of(column.type.value_field))  # with offsets of that size
    values = _column(known.values, own.element_type, now.element_type, into=into.value_type)
    return pa.Array.from_buffers(into, rows, known.buffers()[:2], nulls, children=[values])


def _remove_orphans(table: Any, listed: set[str], before_s: float) -> None:
    """Removes files of a local table that no snapshot and no version of its metadata has, and that are older than the
    snapshots that were kept: a commit that is under way has newer ones. In an object store, what killed runs left is
    for the catalogue's own maintenance, as the table's directory need not be its own."""
    if paths.is_remote(table.location()):
        return
    root = Path(paths.local(table.location()))
    needed = {each for path in listed for each in (paths.same_place(path), paths.same_place(unquote(path)))}
    for path in root.rglob("*"):
        is_ours = path.name.endswith(_SUFFIXES) and not path.is_symlink() and path.is_file()
        if is_ours and paths.same_place(str(path)) not in needed and path.stat().st_mtime < before_s:
            with suppress(FileNotFoundError):
                path.unlink()


def _needed(table: Any) -> Iterator[str]:
    yield table.metadata_location
    yield from (each.metadata_file for each in table.metadata.metadata_log)
    for snapshot in table.metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            yield manifest.manifest_path
            yield from (entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))


def maintain_delta(table: Any, file_bytes: int, keep_s: int) -> None:
    """Maintain a table of Delta, by its own operations."""
    days: Counter[str] = Counter()
    files = pa.table(table.get_add_actions(flatten=True))
    name = f"partition.{DATE}"
    dates = arrow.values(files[name].cast(pa.string())) if name in files.schema.names else [None] * len(files)
    for size, day in zip(arrow.values(files["size_bytes"]), dates, strict=True):
        if size * _SMALL < file_bytes:
            days["" if day is None else day] += 1
    is_by_day = DATE in table.metadata().partition_columns
    merged = sorted(day for day, count in days.items() if count >= _FEW)
    if not merged:
        return
    dated = [day for day in merged if day]
    filters: list[Any] = [[(DATE, "in", dated)]] if dated else []
    filters += [[(DATE, "=", "")]] if "" in merged and is_by_day else []  # that is null, and "in" takes none
    for each in filters or [None]:
        table.optimize.compact(each, target_size=file_bytes, writer_properties=_delta_properties(table))
        if not paths.is_remote(table.table_uri):  # else the files that were merged may be gone, and the merged one too
            guarded_files.sync_all(paths.local(table.table_uri))
    hours = -(-keep_s // 3600)
    table.vacuum(retention_hours=hours, dry_run=False, enforce_retention_duration=False)


def _delta_properties(table: Any) -> Any:
    """Without bounds in merged files where any file has none for a column, as it has a NaN, or where nobody can say, as
    Arrow reads no table with deletion vectors. deltalake takes no paths of columns within structs, so that it is all of
    them or none."""
    from deltalake import ColumnProperties, WriterProperties
    from deltalake.exceptions import DeltaProtocolError

    try:
        with_nan = any(floats_without_bounds(each.metadata) for each in table.to_pyarrow_dataset().get_fragments())
    except DeltaProtocolError:
        with_nan = True
    return WriterProperties(default_column_properties=ColumnProperties(statistics_enabled="NONE")) if with_nan else None
