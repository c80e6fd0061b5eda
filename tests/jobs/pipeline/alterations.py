"""What others do to tables of Delta and Iceberg, by deltalake and pyiceberg: alterations after which a pipeline goes
on, and those for which it refuses the topic until they are undone."""

from __future__ import annotations

import json
import random
import shutil
import struct
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder, TableFeatures, write_deltalake
from deltalake.exceptions import DeltaError
from deltalake.schema import Field
from deltalake.transaction import CommitProperties
from pyiceberg.exceptions import NotInstalledError
from pyiceberg.expressions import In
from pyiceberg.table.sorting import SortOrder
from pyiceberg.transforms import BucketTransform, DayTransform, IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, StringType, StructType
from tests.jobs.tables import delta, iceberg, own_catalog

from brokerless.table_formats.catalog import TableFormat

Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
FIRST_ROW = struct.pack("<IQI2I2HI2H", 1681511377, 1, 0, 12346, 1, 0, 0, 16, 0, 0)
"""A deletion vector of row 0, by Delta's protocol: its magic number, one bitmap of key 0, and that in Roaring's format
(with two bytes more, as Z85 takes four at a time)."""
PATHS = "keyRaw", "keyError", "valueRaw", "valueError"


class ImpossibleError(Exception):
    """The table as it is has nothing that could be altered so."""


@dataclass(frozen=True)
class Place:
    """The table ``t`` in a directory, and what decides about the details. ``exported``: the next offset that is not in
    the table, by the table's versions or snapshots."""

    to: Path
    chance: random.Random
    exported: Mapping[int, int]

    @property
    def delta(self) -> DeltaTable:
        return delta(self.to, "t")

    @property
    def iceberg(self) -> Any:
        return iceberg(self.to, "t")

    def new_name(self) -> str:
        return f"z{self.chance.randrange(10**6)}"


@dataclass(frozen=True)
class Alteration:
    """``refusal``: a pattern of why the pipeline refuses the topic then; empty if it goes on. ``undo``: what its advice
    is. ``restores``: the table may be as it was before, and what that took away is exported again."""

    make: Callable[[Place], None]
    refusal: str = ""
    undo: Callable[[Place], None] | None = None
    restores: bool = False


# -- Delta


def rows_of(table: DeltaTable) -> pa.Table:
    """All rows, by deltalake's reader that knows deletion vectors."""
    return pa.table(QueryBuilder().register("t", table).execute("SELECT * FROM t"))


def _replace(place: Place, rows: pa.Table, by: list[str] | None = None, *, keeps_properties: bool = True) -> None:
    """Other columns for a table, as ``overwriteSchema`` makes them."""
    own = place.delta
    write_deltalake(
        own, rows, mode="overwrite", schema_mode="overwrite", partition_by=["date"] if by is None else by,
        configuration=own.metadata().configuration if keeps_properties else None,
    )  # fmt: skip


def delta_add_column(place: Place) -> None:
    type_ = place.chance.choice([pa.int32(), pa.string(), pa.list_(pa.int64()), pa.struct([("x", pa.date32())])])
    place.delta.alter.add_columns([Field.from_arrow(pa.field(place.new_name(), type_))])


def delta_add_field(place: Place) -> None:
    """Another writer's rows have a field more in ``value``."""
    own = place.delta
    value: Any = _schema(own).field("value")
    if not pa.types.is_struct(value.type):
        raise ImpossibleError
    type_ = pa.struct([*value.type, pa.field(place.new_name(), place.chance.choice([pa.int64(), pa.string()]))])
    rows = pa.table({"value": pa.nulls(1, type_), "date": pa.array([date(2024, 1, 1)])})
    write_deltalake(own, rows, mode="append", schema_mode="merge")


def _schema(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def delta_comment(place: Place) -> None:
    match place.chance.randrange(3):
        case 0:
            place.delta.alter.set_column_metadata(place.chance.choice(["key", "value", "kafka"]), {"comment": "ours"})
        case 1:
            place.delta.alter.set_table_description("what this is")
        case _:
            place.delta.alter.set_table_name("another")


def delta_property(place: Place) -> None:
    name, value = place.chance.choice([
        ("delta.enableChangeDataFeed", "true"), ("delta.logRetentionDuration", "interval 1 days"),
        ("delta.deletedFileRetentionDuration", "interval 1 hours"), ("delta.checkpointInterval", "1"),
        ("delta.dataSkippingNumIndexedCols", "1"), ("delta.autoOptimize.autoCompact", "true"), ("owner", "somebody"),
        ("delta.dataSkippingStatsColumns", "key"), ("delta.appendOnly", "true"),
        ("delta.targetFileSize", "1000"), ("delta.checkpoint.writeStatsAsStruct", "true"),
    ])  # fmt: skip
    place.delta.alter.set_table_properties({name: value}, raise_if_not_exists=False)


def delta_feature(place: Place) -> None:
    own = place.chance.choice([
        TableFeatures.ChangeDataFeed, TableFeatures.AppendOnly, TableFeatures.Invariants,
        TableFeatures.CheckConstraints,
        TableFeatures.TimestampWithoutTimezone, TableFeatures.V2Checkpoint, TableFeatures.GeneratedColumns,
    ])  # fmt: skip
    place.delta.alter.add_feature(own, allow_protocol_versions_increase=True)


def delta_compact(place: Place) -> None:
    if place.chance.random() < 0.5:
        place.delta.optimize.compact()
    else:
        place.delta.optimize.z_order(["key"])


def delta_vacuum(place: Place) -> None:
    place.delta.vacuum(0, dry_run=False, enforce_retention_duration=False, full=place.chance.random() < 0.5)


def delta_checkpoint(place: Place) -> None:
    """Which takes all older entries of the log with it, half of the time."""
    place.delta.create_checkpoint()
    if place.chance.random() < 0.5:
        properties = {"delta.logRetentionDuration": "interval 0 seconds"}
        place.delta.alter.set_table_properties(properties, raise_if_not_exists=False)
        place.delta.create_checkpoint()
        place.delta.cleanup_metadata()


def delta_compact_logs(place: Place) -> None:
    entries = [int(each.stem) for each in (place.to / "t" / "_delta_log").glob("*.json") if each.stem.isdigit()]
    try:
        place.delta.compact_logs(min(entries), place.delta.version())
    except DeltaError as error:  # it wants all entries from the first on
        raise ImpossibleError from error


def _check_may_delete(table: DeltaTable) -> None:
    if table.metadata().configuration.get("delta.appendOnly") == "true":
        raise ImpossibleError


def delta_delete(place: Place) -> None:
    _check_may_delete(place.delta)
    place.delta.delete(f"kafka['offset'] % 5 = {place.chance.randrange(5)}" if place.chance.random() < 0.9 else None)


def delta_delete_by_vector(place: Place) -> None:
    """Marks the first row of a file as deleted, as Spark does where ``delta.enableDeletionVectors`` is set."""
    _check_may_delete(place.delta)
    if "deletionVectors" not in (place.delta.protocol().writer_features or ()):
        place.delta.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
        place.delta.alter.set_table_properties({"delta.enableDeletionVectors": "true"})
    own = pa.table(place.delta.get_add_actions()).to_pylist()
    log, version = place.to / "t" / "_delta_log", place.delta.version() + 1
    known = [json.loads(line) for each in log.glob("*.json") for line in each.read_bytes().splitlines()]
    listed = {unquote(each["path"]) for each in own} - {each["remove"]["path"] for each in known if "remove" in each}
    adds = [each["add"] for each in known if "add" in each and unquote(each["add"]["path"]) in listed]
    if not adds:
        raise ImpossibleError
    add = place.chance.choice(adds)
    vector = {"storageType": "i", "pathOrInlineDv": z85(FIRST_ROW), "sizeInBytes": len(FIRST_ROW), "cardinality": 1}
    common = {name: add[name] for name in ("path", "partitionValues", "size")}
    removed = {**common, "deletionTimestamp": add["modificationTime"], "dataChange": True, "extendedFileMetadata": True}
    info = {"timestamp": add["modificationTime"], "operation": "DELETE", "operationParameters": {}}
    entry = [{"commitInfo": info}, {"remove": removed}, {"add": {**add, "deletionVector": vector}}]
    (log / f"{version:020d}.json").write_text("".join(f"{json.dumps(each)}\n" for each in entry))


def z85(data: bytes) -> str:
    """ZeroMQ's base 85, in which Delta has a vector in its log."""
    groups = [int.from_bytes(data[at : at + 4], "big") for at in range(0, len(data), 4)]
    return "".join(Z85[group // 85**power % 85] for group in groups for power in range(4, -1, -1))


def delta_update(place: Place) -> None:
    _check_may_delete(place.delta)
    place.delta.update(
        updates={"keyError": "'changed'"}, predicate=f"kafka['offset'] % 4 = {place.chance.randrange(4)}"
    )


def _others_rows(schema: pa.Schema) -> pa.Table:
    """Of which the columns of brokerless are null."""
    return pa.table({each.name: pa.nulls(2, each.type) for each in schema}, schema=schema)


def delta_append(place: Place) -> None:
    write_deltalake(place.delta, _others_rows(_schema(place.delta)), mode="append")


def delta_merge(place: Place) -> None:
    """An upsert that changes rows, and adds some."""
    own = place.delta
    _check_may_delete(own)
    source = _others_rows(_schema(own)).set_column(
        _schema(own).get_field_index("keyError"), "keyError", pa.array(["merged", "new"])
    )
    known = own.merge(source, "t.keyError = s.keyError", source_alias="s", target_alias="t")
    known.when_matched_update({"valueError": "s.keyError"}).when_not_matched_insert_all().execute()


def delta_overwrite(place: Place) -> None:
    _check_may_delete(place.delta)
    own = CommitProperties(custom_metadata={"user": "another"})
    write_deltalake(place.delta, rows_of(place.delta), mode="overwrite", commit_properties=own)


def delta_reorder(place: Place) -> None:
    _check_may_delete(place.delta)
    rows = rows_of(place.delta)
    names = place.chance.sample(rows.column_names, len(rows.column_names))
    _replace(place, rows.select(names), keeps_properties=place.chance.random() < 0.5)


def delta_drop_column(place: Place) -> None:
    _check_may_delete(place.delta)
    _replace(place, rows_of(place.delta).drop_columns(place.chance.choice(PATHS)))


def delta_rename(place: Place) -> None:
    _check_may_delete(place.delta)
    _replace(place, rows_of(place.delta).rename_columns({"value": "other"}))


def delta_rename_back(place: Place) -> None:
    _replace(place, rows_of(place.delta).rename_columns({"other": "value"}))


def delta_repartition(place: Place) -> None:
    _check_may_delete(place.delta)
    _replace(place, rows_of(place.delta), place.chance.choice([[], ["date", "key"], ["key"]]))


def delta_partition_back(place: Place) -> None:
    _replace(place, rows_of(place.delta))


def delta_constraint(place: Place) -> None:
    place.delta.alter.add_constraint({"small": "kafka.offset > -2 OR kafka.offset IS NULL"})


def delta_drop_constraint(place: Place) -> None:
    place.delta.alter.drop_constraint("small")


def delta_restore(place: Place) -> None:
    _check_may_delete(place.delta)
    known = [each for each in place.exported if each < place.delta.version()]
    if not known:
        raise ImpossibleError
    try:
        place.delta.restore(place.chance.choice(known))
    except Exception as error:  # of which a checkpoint or VACUUM left nothing
        raise ImpossibleError from error


def delta_remove(place: Place) -> None:
    shutil.rmtree(place.to / "t")


# -- Iceberg


def _value_fields(table: Any) -> list[str]:
    type_ = table.schema().find_field("value").field_type
    return [each.name for each in type_.fields] if isinstance(type_, StructType) else []


def iceberg_add_column(place: Place) -> None:
    with place.iceberg.update_schema() as schema:
        schema.add_column(place.new_name(), place.chance.choice([StringType(), LongType(), DoubleType()]), doc="ours")


def iceberg_add_field(place: Place) -> None:
    above = place.chance.choice(["kafka", *(["value"] if _value_fields(place.iceberg) else [])])
    with place.iceberg.update_schema() as schema:
        schema.add_column((above, place.new_name()), place.chance.choice([StringType(), LongType(), DoubleType()]))


def iceberg_rename_field(place: Place) -> None:
    fields = _value_fields(place.iceberg)
    if not fields:
        raise ImpossibleError
    with place.iceberg.update_schema() as schema:
        schema.rename_column(("value", place.chance.choice(fields)), place.new_name())


def iceberg_drop_field(place: Place) -> None:
    fields = [("value", each) for each in _value_fields(place.iceberg)]
    some = place.chance.choice([*(fields if len(fields) > 1 else []), *((each,) for each in PATHS)])
    with place.iceberg.update_schema() as schema:
        schema.delete_column(some)


def iceberg_comment(place: Place) -> None:
    with place.iceberg.update_schema() as schema:
        schema.update_column(place.chance.choice(["key", "value", "kafka.offset", "kafka"]), doc="what this is")


def iceberg_widen(place: Place) -> None:
    with place.iceberg.update_schema() as schema:
        schema.update_column(place.chance.choice(["kafka.partition", "kafka.timestampType"]), field_type=LongType())


def iceberg_move(place: Place) -> None:
    with place.iceberg.update_schema() as schema:
        match place.chance.randrange(3):
            case 0:
                schema.move_first("kafka")
            case 1:
                schema.move_after("key", "valueRaw")
            case _:
                schema.move_first("kafka.offset")


def iceberg_property(place: Place) -> None:
    name, value = place.chance.choice([
        ("write.data.path", f"file://{place.to}/elsewhere"), ("write.metadata.path", f"file://{place.to}/metadata"),
        ("write.object-storage.enabled", "true"), ("write.metadata.delete-after-commit.enabled", "true"),
        ("write.metadata.previous-versions-max", "1"), ("write.metadata.metrics.default", "none"),
        ("write.parquet.compression-codec", "gzip"), ("commit.manifest-merge.enabled", "true"),
        ("commit.manifest.min-count-to-merge", "2"), ("write.format.default", "orc"), ("owner", "somebody"),
        ("write.delete.mode", "merge-on-read"), ("history.expire.max-snapshot-age-ms", "1"), ("gc.enabled", "false"),
        ("write.spark.accept-any-schema", "true"), ("write.target-file-size-bytes", "1000"), ("format-version", "2"),
    ])  # fmt: skip
    with place.iceberg.transaction() as transaction:
        transaction.set_properties({name: value})


def iceberg_sort(place: Place) -> None:
    with place.iceberg.update_sort_order() as order:
        order.asc("kafka.offset", IdentityTransform())
    assert place.iceberg.sort_order() != SortOrder()


def iceberg_refs(place: Place) -> None:
    snapshot = place.iceberg.current_snapshot()
    if snapshot is None:
        raise ImpossibleError
    snapshots = place.iceberg.manage_snapshots()
    make = snapshots.create_tag if place.chance.random() < 0.5 else snapshots.create_branch
    make(snapshot.snapshot_id, place.new_name()).commit()


def iceberg_expire(place: Place) -> None:
    current, own = place.iceberg.current_snapshot(), place.iceberg.refs().values()
    named = {each.snapshot_id for each in own}
    older = [
        each.snapshot_id for each in place.iceberg.snapshots() if each != current and each.snapshot_id not in named
    ]
    if not older:
        raise ImpossibleError
    some = place.chance.sample(older, place.chance.randint(1, len(older)))
    place.iceberg.maintenance.expire_snapshots().by_ids(some).commit()


def iceberg_roll_back(place: Place) -> None:
    own = place.iceberg
    current = own.current_snapshot()
    there = {each.snapshot_id for each in own.snapshots()} - {current.snapshot_id if current else None}
    known = [each for each in place.exported if each in there]
    if not known:
        raise ImpossibleError
    own.manage_snapshots().set_current_snapshot(place.chance.choice(known)).commit()


def iceberg_delete(place: Place) -> None:
    """Whole files of them, by their keys: pyiceberg deletes none by a column within a struct."""
    try:
        place.iceberg.delete(In("key", [f"k{place.chance.randrange(10)}" for _ in range(3)]))
    except NotInstalledError as error:  # to rewrite a file, it would need pyiceberg-core
        raise ImpossibleError from error


def _copied(place: Place, entry: Any) -> Any:
    """A file of its table under another name, and the form of a URL that Hadoop gives it."""
    other = place.to / "kafka" / "others" / f"{place.new_name()}.parquet"
    other.parent.mkdir(exist_ok=True)
    shutil.copy(entry.file_path.removeprefix("file:"), other)
    written = deepcopy(entry)
    written._data[1] = f"file:{other}"
    return written


def _some_files(place: Place) -> list[Any]:
    files = [each.file for each in place.iceberg.scan().plan_files()]
    if not files:
        raise ImpossibleError
    return place.chance.sample(files, place.chance.randint(1, len(files)))


def iceberg_rewrite(place: Place) -> None:
    """Files become others, as compactions do it."""
    files, own = _some_files(place), place.iceberg
    with own.transaction() as changes, changes.update_snapshot().overwrite() as update:
        for each in files:
            update.delete_data_file(each)
            update.append_data_file(_copied(place, each))


def iceberg_append(place: Place) -> None:
    """Copies of some of its files, as ``add_files`` takes them."""
    files, own = _some_files(place), place.iceberg
    with own.transaction() as changes, changes.update_snapshot().fast_append() as append:
        for each in files:
            append.append_data_file(_copied(place, each))


def iceberg_add_partition(place: Place) -> None:
    with place.iceberg.update_spec() as spec:
        spec.add_field("key" if place.chance.random() < 0.5 else "kafka.offset", BucketTransform(4), "another")


def iceberg_remove_partition(place: Place) -> None:
    with place.iceberg.update_spec() as spec:
        spec.remove_field("another")


def iceberg_drop_day(place: Place) -> None:
    with place.iceberg.update_spec() as spec:
        spec.remove_field("date")


def iceberg_add_day(place: Place) -> None:
    with place.iceberg.update_spec() as spec:
        spec.add_field("kafka.timestamp", DayTransform(), "date")


def iceberg_rename(place: Place) -> None:
    with place.iceberg.update_schema() as schema:
        schema.rename_column("value", "other")


def iceberg_rename_back(place: Place) -> None:
    with place.iceberg.update_schema() as schema:
        schema.rename_column("other", "value")


def iceberg_narrow(place: Place) -> None:
    """A field in the way: of another type than the next records have."""
    if "a" in _value_fields(place.iceberg) or not _value_fields(place.iceberg):
        raise ImpossibleError
    with place.iceberg.update_schema() as schema:
        schema.add_column(("value", "a"), IntegerType())


def iceberg_rename_table(place: Place) -> None:
    own_catalog(place.to).rename_table(("kafka", "t"), ("kafka", place.new_name()))


def iceberg_remove(place: Place) -> None:
    own_catalog(place.to).drop_table(("kafka", "t"))


ALTERATIONS: Mapping[TableFormat, Mapping[str, Alteration]] = {
    "delta": {
        "column added": Alteration(delta_add_column),
        "field added": Alteration(delta_add_field),
        "comment": Alteration(delta_comment),
        "property": Alteration(delta_property),
        "feature": Alteration(delta_feature),
        "compacted": Alteration(delta_compact),
        "vacuumed": Alteration(delta_vacuum),
        "log checkpointed": Alteration(delta_checkpoint),
        "log compacted": Alteration(delta_compact_logs),
        "rows deleted": Alteration(delta_delete),
        "rows deleted by vectors": Alteration(delta_delete_by_vector),
        "rows updated": Alteration(delta_update),
        "rows appended": Alteration(delta_append),
        "rows merged": Alteration(delta_merge),
        "overwritten": Alteration(delta_overwrite),
        "columns reordered": Alteration(delta_reorder),
        "column dropped": Alteration(delta_drop_column),
        "column renamed": Alteration(delta_rename, "has no column value any more; rename it back", delta_rename_back),
        "partitioned otherwise": Alteration(
            delta_repartition, "partitioned in another way than by day; export to another", delta_partition_back
        ),
        "constraint": Alteration(delta_constraint, "the constraint small.; drop them", delta_drop_constraint),
        "restored": Alteration(delta_restore, restores=True),
        "removed": Alteration(delta_remove, restores=True),
    },
    "iceberg": {
        "column added": Alteration(iceberg_add_column),
        "field added": Alteration(iceberg_add_field),
        "field renamed": Alteration(iceberg_rename_field),
        "field dropped": Alteration(iceberg_drop_field),
        "comment": Alteration(iceberg_comment),
        "type widened": Alteration(iceberg_widen),
        "columns moved": Alteration(iceberg_move),
        "property": Alteration(iceberg_property),
        "sort order": Alteration(iceberg_sort),
        "tag or branch": Alteration(iceberg_refs),
        "snapshots expired": Alteration(iceberg_expire),
        "rolled back": Alteration(iceberg_roll_back, restores=True),
        "rows deleted": Alteration(iceberg_delete),
        "files rewritten": Alteration(iceberg_rewrite),
        "rows appended": Alteration(iceberg_append),
        "type in the way": Alteration(iceberg_narrow),
        "partition added": Alteration(
            iceberg_add_partition, "partitioned in another way than by day; export to another", iceberg_remove_partition
        ),
        "partition dropped": Alteration(
            iceberg_drop_day, "partitioned in another way than by day; export to another", iceberg_add_day
        ),
        "column renamed": Alteration(
            iceberg_rename, "has no column value any more; rename it back", iceberg_rename_back
        ),
        "table renamed": Alteration(iceberg_rename_table, restores=True),
        "removed": Alteration(iceberg_remove, restores=True),
    },
}
"""By format, and by what it is called in counts."""
