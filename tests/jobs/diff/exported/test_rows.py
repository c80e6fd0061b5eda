"""A log is compared with what `export` made of it: rows that others removed or changed are found, and nothing else."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.jobs.diff.planted import START, Batches, ModelBatch, ModelRecord, random_log, write

import brokerless
from brokerless.errors import UnreadableError, UnwritableError
from brokerless.jobs.diff import copies
from brokerless.jobs.diff.partition_diff import PartitionDiff
from brokerless.table_formats.catalog import Catalog
from brokerless.table_formats.iceberg.tables import IcebergTables
from brokerless.table_formats.types import EXPORT

FORMS = [None, "iceberg", "delta"]
DAYS = 3 * 86_400_000
DEMO = Path(__file__).parents[4] / "demo" / "data"


def spread(log: Batches, chance: random.Random) -> Batches:
    """The log with times of several days, one after the other or not, and a record without one."""
    return [
        ModelBatch(
            tuple(
                ModelRecord(one.offset, START + chance.randrange(DAYS), one.key, one.value, one.headers)
                for one in each.records
            ),
            each.codec,
        )
        for each in log
    ]


def export(log: Path, to: Path, form: str | None, **options: object) -> Path:
    brokerless.open(log).partition("topic", 0).export(to, **({} if form is None else {"as_": form}), **options)  # type: ignore[arg-type]
    return to


def rewrite(to: Path, change: Callable[[pa.Table], pa.Table], partition: int = 0) -> None:
    """Change the Parquet files of a partition, as somebody might."""
    for path in to.rglob(f"partition-{partition}-*.parquet"):
        pq.write_table(change(pq.ParquetFile(path).read()), path)


def drop(rows: pa.Table, offsets: set[int]) -> pa.Table:
    return rows.filter([each not in offsets for each in rows.column("offset").to_pylist()])


def with_column(rows: pa.Table, name: str, values: Sequence[object]) -> pa.Table:
    at = rows.schema.get_field_index(name)
    if at < 0:
        return rows.append_column(name, pa.array(values))
    return rows.set_column(at, rows.schema.field(name), pa.array(values, rows.schema.field(name).type))


def superseded(rows: pa.Table) -> int:
    """The offset of a record after others whose key comes again."""
    keys = rows.column("key").to_pylist()
    return next(
        offset
        for row, (offset, key) in enumerate(zip(rows.column("offset").to_pylist(), keys, strict=True))
        if row > 10 and key is not None and key in keys[row + 1 :]
    )


def compare(left: Path, right: Path, **options: object) -> PartitionDiff:
    (found,) = brokerless.diff(left, right, **options).partitions  # type: ignore[arg-type]
    return found


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("seed", range(4))
def test_a_table_has_the_records_of_its_log(form: str | None, seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    log = spread(random_log(chance), chance)
    write(tmp_path / "log", log, chance)
    to = export(tmp_path / "log", tmp_path / "to", form, **({"by_date": True} if form is None and seed % 2 else {}))
    for sides in ((tmp_path / "log", to), (to, tmp_path / "log")):
        found = compare(*sides)
        assert (found.causes, found.is_same) == ({}, True)
        assert found.same == sum(len(each.records) for each in log)


@pytest.mark.parametrize("form", FORMS)
def test_what_others_did_to_a_table_is_found(form: str | None, tmp_path: Path) -> None:
    """Ten rows are removed, in Delta one is changed as well; files are written again, so that rows have any order."""
    chance = random.Random(1)
    records = [ModelRecord(at, START + (at * 7919) % DAYS, b"key-%d" % at, b"value") for at in range(200)]
    write(tmp_path / "log", [ModelBatch(tuple(records[at : at + 20])) for at in range(0, 200, 20)], chance)
    to = export(tmp_path / "log", tmp_path / "to", form)
    changed = 0
    if form == "delta":
        table = DeltaTable(str(to / "topic"))
        table.delete("kafka.offset >= 50 AND kafka.offset < 60")
        table.update(predicate="kafka.offset = 70", updates={"value": "CAST('other' AS BYTEA)"})
        table.optimize.compact()
        changed = 1
    else:
        for path in to.rglob("*.parquet"):
            rows = pq.ParquetFile(path).read()
            own = [each["offset"] for each in (rows.column("kafka") if form else rows).to_pylist()]
            pq.write_table(rows.filter([not 50 <= each < 60 for each in own]), path)
    found = compare(tmp_path / "log", to)
    assert (found.missing, found.extra, found.changed) == (10, 0, changed)
    assert found.causes == {"missing": 10} | ({"changed": 1} if changed else {})
    assert (found.differences[0].first_offset, found.differences[0].last_offset) == (50, 59)


def test_a_lost_row_is_no_compaction_where_its_key_comes_again(tmp_path: Path) -> None:
    """The copy of a table has a checkpoint of a cleaner beside it, and no cleaner was there."""
    keys = [b"again" if at in (50, 90) else b"own-%d" % at for at in range(100)]
    log = [ModelBatch(tuple(ModelRecord(at, START + at, keys[at], b"value %d" % at) for at in range(100)))]
    write(tmp_path / "log", log, random.Random(1))
    to = export(tmp_path / "log", tmp_path / "to", None)
    rewrite(to, lambda rows: drop(rows, {50}))
    for sides, cause in (((tmp_path / "log", to), "missing"), ((to, tmp_path / "log"), "extra")):
        assert compare(*sides).causes == {cause: 1}
        assert compare(*sides, allow=["compaction"]).causes == {"compaction": 1}, "who says that it is compacted"


def test_where_the_policy_is_known_compaction_is_what_it_says(tmp_path: Path) -> None:
    """Of demo/data, `orders` has cleanup.policy=delete, and `users` compact."""
    for topic, cause in (("orders", "missing"), ("users", "compaction")):
        to = tmp_path / topic
        brokerless.open(DEMO).topic(topic).export(to)
        log = brokerless.open(DEMO).topic(topic).partition(topic, 0).to_table()
        lost = superseded(log)
        rewrite(to, lambda rows, lost=lost: drop(rows, {lost}), partition=0)
        first, *_ = brokerless.diff(DEMO, to, topics=[topic]).partitions
        assert {name: count for name, count in (first.causes or {}).items() if name != "control"} == {cause: 1}
        assert first.is_same == (cause == "compaction")


@pytest.mark.parametrize("form", FORMS)
def test_what_came_after_an_export_is_lagging_and_what_went_before_is_retention(
    form: str | None, tmp_path: Path
) -> None:
    chance = random.Random(3)
    records = [ModelRecord(at, START + at, b"key", b"value %d" % at) for at in range(100)]
    log = [ModelBatch(tuple(records[at : at + 10])) for at in range(0, 100, 10)]
    write(tmp_path / "before", log[:8], chance)
    to = export(tmp_path / "before", tmp_path / "to", form)
    write(tmp_path / "now", log[2:], chance)
    found = compare(tmp_path / "now", to)
    assert (found.causes, found.same) == ({"retention": 20, "lagging": 20}, 60)
    assert compare(tmp_path / "now", to, allow=["lagging"]).is_same


def add_row(to: Path, form: str | None, offset: int, partition: int = 0) -> None:
    """Append a row of the table with another offset, as somebody might."""
    if form == "iceberg":  # whose library needs another one to append: exported, and the record of that is taken back
        table = IcebergTables(str(to), Catalog()).open_table("topic")
        recorded = table.properties[EXPORT]
        with tempfile.TemporaryDirectory() as log:
            write(Path(log), [ModelBatch((ModelRecord(offset, START, b"key", b"added"),))], random.Random(6))
            Path(log, "topic-0").rename(Path(log, f"topic-{partition}"))
            brokerless.open(log).export(to, as_="iceberg", on_damage=lambda _: None)  # offsets between are missing
        table.refresh()
        with table.transaction() as transaction:
            transaction.set_properties({EXPORT: recorded})
        return
    if form is None:
        own = next(to.rglob("partition-0-*.parquet"))
        row = pq.ParquetFile(own).read().slice(0, 1)
        row = with_column(with_column(row, "offset", [offset]), "partition", [partition])
        pq.write_table(row, own.with_name(f"partition-{partition}-{offset:020d}.parquet"))
        return
    assert form == "delta"
    table = DeltaTable(str(to / "topic"))
    rows = table.to_pyarrow_table().slice(0, 1)
    row = rows.to_pylist()[0]
    row["kafka"] |= {"offset": offset, "partition": partition}
    write_deltalake(table, pa.Table.from_pylist([row], rows.schema), mode="append")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("offset", [10, 5000])
def test_rows_after_the_recorded_end_are_seen(form: str | None, offset: int, tmp_path: Path) -> None:
    log = [ModelBatch(tuple(ModelRecord(at, START + at, b"key", b"value") for at in range(10)))]
    write(tmp_path / "log", log, random.Random(6))
    to = export(tmp_path / "log", tmp_path / "to", form)
    add_row(to, form, offset)
    found = compare(tmp_path / "log", to)
    assert (found.causes, found.extra, found.same) == ({"lagging": 1}, 1, 10)
    assert compare(to, tmp_path / "log").missing == 1
    assert found.right is not None
    assert found.right.end_offset == offset + 1


@pytest.mark.parametrize("form", FORMS)
def test_a_partition_that_only_rows_have_is_one_of_the_table(form: str | None, tmp_path: Path) -> None:
    log = [ModelBatch(tuple(ModelRecord(at, START + at, b"key", b"value") for at in range(10)))]
    write(tmp_path / "log", log, random.Random(6))
    to = export(tmp_path / "log", tmp_path / "to", form)
    add_row(to, form, 0, partition=7)
    found = brokerless.diff(tmp_path / "log", to)
    assert [(each.partition, each.problem) for each in found.partitions] == [(0, None), (7, "only-right")]
    assert not found.is_same


@pytest.mark.parametrize("form", FORMS)
def test_a_partition_without_records_is_the_same_as_none_in_a_table(form: str | None, tmp_path: Path) -> None:
    """An export writes nothing of it, nor of a topic that has no other one; but of all others."""
    write(tmp_path / "log", [ModelBatch((ModelRecord(0, START, b"key", b"value"),))], random.Random(6))
    for name, first in (("topic-1", 0), ("empty-0", 0), ("emptied-0", 700)):
        (tmp_path / "log" / name).mkdir()
        (tmp_path / "log" / name / f"{first:020}.log").touch()
    to = tmp_path / "to"
    brokerless.open(tmp_path / "log").export(to, **({} if form is None else {"as_": form}))  # type: ignore[arg-type]
    for sides in ((tmp_path / "log", to), (to, tmp_path / "log")):
        found = brokerless.diff(*sides)
        assert found.is_same, [*found.lines()]
        assert [(each.name, each.same) for each in found.partitions] == [
            ("emptied-0", 0), ("empty-0", 0), ("topic-0", 1), ("topic-1", 0),
        ]  # fmt: skip
        assert brokerless.diff(*sides, topics=["empty"]).is_same
    write(tmp_path / "more", [ModelBatch((ModelRecord(0, START, b"key", b"value"),))], random.Random(6))
    (tmp_path / "more" / "topic-0").rename(tmp_path / "more" / "other-0")
    assert not brokerless.diff(tmp_path / "more", to, topics=["other"]).is_same


def test_a_table_of_several_partitions_has_each_of_them(tmp_path: Path) -> None:
    for form in FORMS:
        to = tmp_path / (form or "parquet")
        brokerless.open(DEMO).topic("orders").export(to, **({} if form is None else {"as_": form}))  # type: ignore[arg-type]
        found = brokerless.diff(DEMO, to, topics=["orders"])
        assert found.is_same
        assert [each.partition for each in found.partitions] == [0, 1, 2]
        assert {cause for each in found.partitions for cause in each.causes or {}} <= {"control"}


def add_again(to: Path, form: str | None, offsets: list[int]) -> None:
    """Write rows of a table once more: into the same file, or another one, as somebody might."""
    if form == "delta":
        table = DeltaTable(str(to / "topic"))
        rows = table.to_pyarrow_table()
        chosen = [each["offset"] in offsets for each in rows.column("kafka").to_pylist()]
        write_deltalake(table, rows.filter(chosen), mode="append")
        return
    for path in to.rglob("*.parquet"):
        rows = pq.ParquetFile(path).read()
        own = [each["offset"] for each in (rows.column("kafka") if form else rows).to_pylist()]
        taken = sorted([*range(len(own)), *(at for at, each in enumerate(own) if each in offsets)])
        pq.write_table(rows.take(taken), path)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("again", [[7], [0, 1, 2, 29], [*range(11), *range(12, 30)]])
def test_a_row_that_is_there_twice_is_a_duplicate(form: str | None, again: list[int], tmp_path: Path) -> None:
    """And all other rows are compared, one of which was changed."""
    records = [ModelRecord(at, START + at * 40_000_000, b"key-%d" % at, b"value %d" % at) for at in range(30)]
    write(tmp_path / "log", [ModelBatch(tuple(records))], random.Random(6))
    to = export(tmp_path / "log", tmp_path / "to", form)
    add_again(to, form, again)
    records[11] = ModelRecord(11, records[11].timestamp, b"key-11", b"other")
    write(tmp_path / "now", [ModelBatch(tuple(records))], random.Random(6))
    for sides, what in (((tmp_path / "now", to), "extra"), ((to, tmp_path / "now"), "missing")):
        found = compare(*sides)
        assert found.causes == {"duplicate": len(again), "changed": 1}
        assert (getattr(found, what), found.same, found.is_same) == (len(again), 29, False)
        twice = [each for each in found.differences if each.cause == "duplicate"]
        assert [twice[0].first_offset, twice[-1].last_offset] == [again[0], again[-1]]
        assert f"twice on the {'right' if what == 'extra' else 'left'}" in str(twice[0])
        keyed = compare(*sides, align="key")
        assert keyed.causes == {"duplicate": len(again), "changed": 1}
        assert compare(*sides, allow=["duplicate", "changed"]).is_same


@pytest.mark.parametrize("form", FORMS)
def test_all_rows_of_one_offset_take_the_room_of_one(form: str | None, tmp_path: Path) -> None:
    write(tmp_path / "log", [ModelBatch((ModelRecord(0, START, b"key", b"value"),))], random.Random(6))
    to = export(tmp_path / "log", tmp_path / "to", form)
    if form == "delta":
        row = DeltaTable(str(to / "topic")).to_pyarrow_table()
        write_deltalake(str(to / "topic"), row.take([0] * 39_999), mode="append")
    else:
        for path in to.rglob("*.parquet"):
            pq.write_table(pq.ParquetFile(path).read().take([0] * 40_000), path)
    found = compare(tmp_path / "log", to)
    assert (found.causes, found.same) == ({"duplicate": 39_999}, 1)


@pytest.mark.parametrize(("column", "value", "text"), [
    ("partition", 1, "is of partition 1"),
    ("partition", None, "says no partition"),
    ("topic", "other", "is of topic other"),
])  # fmt: skip
def test_a_row_of_another_partition_is_refused(column: str, value: object, text: str, tmp_path: Path) -> None:
    own = {"partition": 0, "topic": "topic"}[column]
    log = [ModelBatch(tuple(ModelRecord(at, START + at, b"key", b"value") for at in range(10)))]
    write(tmp_path / "log", log, random.Random(6))
    to = export(tmp_path / "log", tmp_path / "to", None)
    rewrite(to, lambda rows: with_column(rows, column, [*[own] * 9, value]))
    with pytest.raises(UnreadableError, match=f"topic-0: a row in the files of this partition {text}; put back"):
        compare(tmp_path / "log", to)


def test_a_row_of_another_topic_in_a_table_is_refused(tmp_path: Path) -> None:
    log = [ModelBatch(tuple(ModelRecord(at, START + at, b"key", b"value") for at in range(10)))]
    write(tmp_path / "log", log, random.Random(6))
    to = export(tmp_path / "log", tmp_path / "to", "iceberg")
    for path in to.rglob("partition-*.parquet"):
        rows = pq.ParquetFile(path).read()
        changed = [each | {"topic": "other"} for each in rows.column("kafka").to_pylist()]
        pq.write_table(with_column(rows, "kafka", changed), path)
    with pytest.raises(UnreadableError, match="topic-0: a row in the files of this partition is of topic other; put"):
        compare(tmp_path / "log", to)


@pytest.mark.parametrize(("names", "text"), [
    (["timestamp"], "no rows of an export: there is no column timestamp, so that"),
    (["timestamp", "headers"], "no rows of an export: there is no column timestamp, headers, so that"),
    (["offset"], "named as a file of an export, but has no offsets"),
])  # fmt: skip
def test_a_table_without_a_column_of_an_export_is_refused(names: list[str], text: str, tmp_path: Path) -> None:
    """Nothing else is put in its place, such as the present time."""
    log = [ModelBatch(tuple(ModelRecord(at, START + at, b"key", b"value") for at in range(10)))]
    write(tmp_path / "log", log, random.Random(6))
    to = export(tmp_path / "log", tmp_path / "to", None)
    rewrite(to, lambda rows: rows.drop_columns(names))
    with pytest.raises(UnreadableError, match=text):
        compare(tmp_path / "log", to)


def cut(path: Path) -> None:
    """The end of the file is lost, with what says where its columns are."""
    path.write_bytes(path.read_bytes()[:-20])


def written_thrice(tmp_path: Path, form: str | None, **options: object) -> tuple[Path, Path]:
    """A log of 30 records, and a table to which it was exported ten by ten."""
    records = [ModelRecord(at, START + at * 40_000_000, b"key", b"value %d" % at) for at in range(30)]
    for end in (10, 20, 30):
        write(tmp_path / f"log-{end}", [ModelBatch(tuple(records[:end]))], random.Random(6))
        export(tmp_path / f"log-{end}", tmp_path / "to", form, **options)
    return tmp_path / "log-30", tmp_path / "to"


@pytest.mark.parametrize(("lost", "unread"), [(0, (0, 9)), (1, (10, 19)), (2, (20, 29))])
def test_a_damaged_parquet_file_is_a_range_that_could_not_be_compared(
    lost: int, unread: tuple[int, int], tmp_path: Path
) -> None:
    log, to = written_thrice(tmp_path, None)
    path = sorted(to.rglob("partition-0-*.parquet"))[lost]
    cut(path)
    for sides, hand in (((log, to), "right"), ((to, log), "left")):
        found = compare(*sides)
        (own,) = found.uncompared
        assert (own.side, own.first_offset, own.last_offset, own.records) == (hand, *unread, 10)
        assert str(path) in str(own.finding)
        assert (found.same, found.missing, found.extra, found.causes, found.is_same) == (20, 0, 0, {}, False)
    keyed = compare(log, to, align="key")
    assert (len(keyed.uncompared), keyed.is_same) == (1, False)


def test_a_damaged_file_of_a_day_names_all_that_may_have_been_in_it(tmp_path: Path) -> None:
    log, to = written_thrice(tmp_path, None, by_date=True)
    paths = sorted(to.rglob("partition-0-*.parquet"))
    assert len(paths) > 10
    cut(paths[4])
    found = compare(log, to)
    (own,) = found.uncompared
    assert (own.first_offset, own.last_offset) == (int(paths[4].stem[-20:]), 29)
    assert own.records == 30 - found.same > 0


@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_of_a_table_with_a_damaged_file_what_it_lacks_is_no_difference(form: str, tmp_path: Path) -> None:
    log, to = written_thrice(tmp_path, form)
    cut(next(to.rglob("partition-0-*.parquet")))
    found = compare(log, to)
    (own,) = found.uncompared
    assert (own.side, own.first_offset, own.last_offset) == ("right", 0, 29)
    assert (found.same + own.records, found.causes, found.is_same) == (30, {}, False)


def test_a_full_temporary_directory_is_named_with_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    write(tmp_path / "log", [ModelBatch((ModelRecord(0, START, b"key", b"value"),))], chance)
    to = export(tmp_path / "log", tmp_path / "to", None)

    def full(*_: object) -> None:
        raise UnwritableError("No space left on device")

    monkeypatch.setattr(copies, "load_into", full)
    with pytest.raises(UnreadableError, match=r"topic-0: its copy .* No space left on device; set TMPDIR"):
        compare(tmp_path / "log", to)
