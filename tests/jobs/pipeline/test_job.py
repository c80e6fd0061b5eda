"""A run does what is new and nothing else: every record that a reader gets is in its table once, damage is listed."""

from __future__ import annotations

import shutil
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow.parquet as pq
import pytest
from tests.golden import broker_data
from tests.jobs.exports import facts, listing, partition, table
from tests.jobs.pipeline.works import PRIVATE, offsets, own_table, pipeline, segments, table_offsets
from tests.log.whole_batches import batch, marker

import brokerless
from brokerless.errors import BrokerlessError, UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.pipeline.job import follow, run_pipeline
from brokerless.jobs.pipeline.settings import Settings
from brokerless.table_formats.export_directory import only_export
from brokerless.typed.topic_type import Decoding

DEMO = Path(__file__).parents[3] / "demo" / "data"


def read(source: Path, **options: Any) -> list[tuple[Any, ...]]:
    """What a reader gets of a log directory, Kafka's own topics left out."""
    found: list[Finding] = []
    partitions = [each for each in brokerless.open(source).partitions if not each.name.startswith("__")]
    rows = [row for each in partitions for batch in each.records(on_damage=found.append, **options)
            for row in batch.to_pylist()]  # fmt: skip
    return facts(rows)


def test_everything_is_exported_once_and_a_run_over_nothing_new_changes_nothing(tmp_path: Path) -> None:
    first = pipeline(DEMO, tmp_path / "to")
    assert facts(table(tmp_path / "to")) == read(DEMO)
    before = listing(tmp_path / "to")
    second = pipeline(DEMO, tmp_path / "to")
    assert (first.is_new, second.is_new) == (True, False)
    assert (second.segments_verified, second.exported) == (0, [])
    after = listing(tmp_path / "to")
    assert {name: after[name] for name in before} == before
    assert {name.rpartition("/")[0] for name in after.keys() - before.keys()} == {f"{PRIVATE}/runs"}
    rows = own_table(tmp_path / "to", "runs")
    assert [row["runId"] for row in rows] == [first.id, second.id]
    assert [row["records"] for row in rows] == [5557, 0]
    assert [row["segmentsVerified"] for row in rows] == [21, 0]


def test_aborted_records_are_left_out_on_request(tmp_path: Path) -> None:
    source = broker_data("clean")
    pipeline(source, tmp_path / "to", isolation="read_committed", topic=("txn",))
    expected = [row for row in read(source, isolation="read_committed") if row[0] == "txn"]
    assert facts(table(tmp_path / "to")) == expected
    assert len(expected) > 100


def test_every_damaged_range_is_listed_once_with_its_offsets(tmp_path: Path) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 50), range(50, 100), wrong=(20, 70))
    run = pipeline(tmp_path / "logs", tmp_path / "to")
    assert [(each.firstOffset, each.lastOffset, each.kind) for each in run.ranges] == [
        (20, 29, "checksum-mismatch"), (70, 79, "checksum-mismatch")
    ]  # fmt: skip
    assert run.counts == {"error": 2}
    assert offsets(tmp_path / "to") == [*range(20), *range(30, 70), *range(80, 100)]
    segments(tmp_path / "logs" / "t-0", range(50, 120), wrong=(70, 100))  # the last segment has grown
    again = pipeline(tmp_path / "logs", tmp_path / "to")
    assert [each.firstOffset for each in again.ranges] == [100]
    assert again.segments_verified == 1
    assert offsets(tmp_path / "to") == [*range(20), *range(30, 70), *range(80, 100), *range(110, 120)]
    rows = own_table(tmp_path / "to", "damaged")
    assert [(row["firstOffset"], row["lastOffset"], row["sizeInBytes"] > 0) for row in rows] == [
        (20, 29, True), (70, 79, True), (100, 109, True)
    ]  # fmt: skip
    assert {row["kind"] for row in own_table(tmp_path / "to", "findings")} == {"checksum-mismatch"}


def test_what_is_listed_as_damaged_follows_the_files(tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    segments(logs / "t-0", range(0, 50), range(50, 80), wrong=(20, 70))
    pipeline(logs, to)
    assert [(row["firstOffset"], row["lastOffset"]) for row in own_table(to, "damaged")] == [(20, 29), (70, None)]
    segments(logs / "t-0", range(0, 50), range(50, 90), wrong=(70,))  # a good copy of the first, and records after
    assert pipeline(logs, to).counts == {}
    rows = [(row["firstOffset"], row["lastOffset"], row["kind"]) for row in own_table(to, "damaged")]
    assert rows == [(70, 79, "checksum-mismatch")]
    assert sorted(offsets(to)) == [*range(70), *range(80, 90)]


def test_a_topic_that_cannot_be_in_its_table_does_not_stop_the_others(tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    for topic in ("a", "b"):
        segments(logs / f"{topic}-0", range(0, 20))
    pipeline(logs, to)
    segments(logs / "a-0", range(0, 10))  # deleted, and made again
    (logs / "a-0" / "partition.metadata").write_text("version: 0\ntopic_id: BBBBBBBBBBBBBBBBBBBBBQ\n")
    segments(logs / "b-0", range(0, 40))
    run = pipeline(logs, to)
    assert (offsets(to, "a"), offsets(to, "b")) == (list(range(20)), list(range(40)))
    assert [each.kind for each in run.findings] == ["topic-refused"]
    assert "of another one, with ID BBBBBBBBBBBBBBBBBBBBBQ" in run.refused["a"]
    again = pipeline(logs, to)
    assert (again.is_new, list(again.refused)) == (False, ["a"])
    assert [row["kind"] for row in own_table(to, "findings")] == ["topic-refused"]


def test_of_topics_that_would_share_a_table_the_one_that_has_it_keeps_it(tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    for topic in ("web.clicks", "_delta_log"):
        segments(logs / f"{topic}-0", range(0, 20))
    assert list(pipeline(logs, to, form="delta").refused) == ["_delta_log"]
    segments(logs / "web.clicks-0", range(0, 30))
    for topic in ("Web.Clicks", "web-clicks"):
        segments(logs / f"{topic}-0", range(0, 50))
    run = pipeline(logs, to, form="delta")
    assert sorted(table_offsets(to, "web.clicks", 0, "delta")) == list(range(30))
    assert "Web_Clicks but for upper and lower case" in run.refused["Web.Clicks"]
    assert set(run.refused) == {"_delta_log", "Web.Clicks", "web-clicks"}
    assert {path.name for path in to.iterdir()} == {PRIVATE, "web_clicks"}


def test_a_selected_topic_may_go_and_others_may_come(tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    selected: dict[str, Any] = {"topic": ("a", "b", "new*")}
    for topic in ("a", "b"):
        segments(logs / f"{topic}-0", range(0, 20))
    pipeline(logs, to, **selected)
    shutil.rmtree(logs / "a-0")
    segments(logs / "new-0", range(0, 10))
    pipeline(logs, to, **selected)
    assert (offsets(to, "a"), offsets(to, "new")) == (list(range(20)), list(range(10)))
    with pytest.raises(UnreadableError, match="no topic c in"):
        pipeline(logs, to, topic=("b", "c"))


def test_what_follows_a_wrong_size_is_exported(tmp_path: Path) -> None:
    directory = segments(tmp_path / "logs" / "t-0", range(0, 50), range(50, 60))
    log = directory / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    size = len(data) // 5
    data[size * 2 + 8 : size * 2 + 12] = bytes(4)  # the size of the batch from offset 20 on
    log.write_bytes(data)
    run = pipeline(tmp_path / "logs", tmp_path / "to")
    there = offsets(tmp_path / "to")
    lost = {offset for each in run.ranges for offset in range(each.firstOffset or 0, (each.lastOffset or 0) + 1)}
    assert there == [*range(20), *range(30, 60)]
    assert lost == set(range(60)) - set(there)
    assert [each.kind for each in run.ranges] == ["batch-size-invalid"]
    assert sum(each.sizeInBytes for each in run.ranges) == size


def test_offsets_after_a_break_wait_for_the_next_segment_and_are_listed_until_then(tmp_path: Path) -> None:
    directory = segments(tmp_path / "logs" / "t-0", range(0, 50))
    log = directory / f"{0:020d}.log"
    data = bytearray(log.read_bytes())
    data[len(data) // 5 * 4 + 8 : len(data) // 5 * 4 + 12] = bytes(4)
    log.write_bytes(data)
    run = pipeline(tmp_path / "logs", tmp_path / "to")
    assert [(each.firstOffset, each.lastOffset) for each in run.ranges] == [(40, None)]
    assert not pipeline(tmp_path / "logs", tmp_path / "to").is_new
    segments(directory, range(50, 60))
    assert pipeline(tmp_path / "logs", tmp_path / "to").ranges == []
    assert offsets(tmp_path / "to") == [*range(40), *range(50, 60)]
    assert [row["firstOffset"] for row in own_table(tmp_path / "to", "damaged")] == [40]


def test_snapshots_that_overlap_become_one_table(tmp_path: Path) -> None:
    nights = tmp_path / "backups"
    segments(nights / "2026-11-21" / "t-0", range(0, 50), range(50, 80))
    segments(nights / "2026-11-22" / "t-0", range(50, 100), range(100, 130))
    pipeline(nights, tmp_path / "to")
    assert offsets(tmp_path / "to") == list(range(130))
    segments(nights / "2026-11-23" / "t-0", range(100, 170))
    shutil.rmtree(nights / "2026-11-21")
    run = pipeline(nights, tmp_path / "to")
    assert offsets(tmp_path / "to") == list(range(170))
    assert (run.segments_verified, run.log_directories, run.findings) == (1, 2, [])


def test_of_replicas_the_one_without_damage_is_exported(tmp_path: Path) -> None:
    segments(tmp_path / "disks" / "a" / "t-0", range(0, 90), wrong=(20,))
    segments(tmp_path / "disks" / "b" / "t-0", range(0, 60))
    run = pipeline(tmp_path / "disks", tmp_path / "to")
    assert offsets(tmp_path / "to") == list(range(90))
    assert [each.source.rsplit("/", 2)[1] for each in run.exported] == ["b", "a"]
    assert [each.firstOffset for each in run.ranges] == [20]  # in the table, as b has it, and damaged on a


def test_copies_that_are_damaged_elsewhere_fill_each_other_in(tmp_path: Path) -> None:
    disks, to = tmp_path / "disks", tmp_path / "to"
    segments(disks / "a" / "t-0", range(0, 50), range(50, 90), wrong=(20,))
    segments(disks / "b" / "t-0", range(0, 50), range(50, 90), wrong=(60,))
    pipeline(disks, to)
    lacking = set(range(90)) - set(offsets(to))

    def is_in_table() -> dict[int, bool]:
        return {row["firstOffset"]: row["isInTable"] for row in own_table(to, "damaged")}

    assert (lacking, is_in_table()) == (set(), {20: True, 60: True})
    segments(disks / "a" / "u-0", range(0, 50))
    pipeline(disks, to)
    segments(disks / "a" / "u-0", range(0, 50), wrong=(30,))  # damaged after it was exported
    pipeline(disks, to)
    assert [row["isInTable"] for row in own_table(to, "damaged") if row["topic"] == "u"] == [True]


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("form", ["parquet", "iceberg", "delta"])
def test_a_copy_that_comes_later_fills_in_what_was_damaged(tmp_path: Path, form: str, verify: bool) -> None:
    disks, to = tmp_path / "disks", tmp_path / "to"
    run = partial(pipeline, disks, to, form=form, verify=verify)

    def state() -> tuple[set[int], dict[int, bool]]:
        lacking = set(range(50)) - set(table_offsets(to, "t", 0, form).tolist())
        assert len(table_offsets(to, "t", 0, form)) == 50 - len(lacking)
        return lacking, {row["firstOffset"]: row["isInTable"] for row in own_table(to, "damaged", form)}

    segments(disks / "a" / "t-0", range(0, 50), wrong=(10, 30))
    run()
    assert state() == ({*range(10, 20), *range(30, 40)}, {10: False, 30: False})
    assert not run().is_new
    segments(disks / "b" / "t-0", range(0, 50), wrong=(30,))
    segments(disks / "c" / "t-0", range(0, 10))  # and one that is older
    second = run()
    assert ([each.filled for each in second.exported], {each.offset for each in second.findings}) == (
        [((10, 20),)], {30} if verify else set()
    )  # fmt: skip
    lacking, listed = state()
    assert (lacking, listed.get(10, True), listed[30]) == ({*range(30, 40)}, True, False)
    assert not run().is_new
    segments(disks / "b" / "t-0", range(0, 50))
    assert [each.filled for each in run().exported] == [((30, 40),)]
    lacking, listed = state()
    assert (lacking, set(listed.values())) == (set(), {True} if verify else set())
    assert not run().is_new


@pytest.mark.parametrize("form", ["parquet", "iceberg", "delta"])
@pytest.mark.parametrize("is_committed", [True, False])
def test_a_transaction_that_stays_open_is_nothing_new(tmp_path: Path, form: str, is_committed: bool) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    producer, log = (7, 0, 0), [batch(0, 10), batch(10, 10, producer=(7, 0, 0), attributes=0x10), batch(20, 10)]
    run = partial(pipeline, logs, to, form=form, isolation="read_committed")
    partition(logs / "t-0", b"".join(map(bytes, log)))
    assert run().is_new
    own = Settings((str(logs),), str(to), form=cast("Any", form), report=False, isolation="read_committed")
    for _ in range(2):
        assert (run(report=True).is_new, next(follow(own, 0.01, spark="none")).is_new) == (False, False)
    assert len(own_table(to, "runs", form)) == 3
    assert not (to / PRIVATE / "report.html").exists()
    assert table_offsets(to, "t", 0, form).tolist() == list(range(10))
    log.append(marker(30, producer[:2], commit=is_committed))
    partition(logs / "t-0", b"".join(map(bytes, log)))
    assert run().is_new
    there = [*range(10), *(range(10, 20) if is_committed else ()), *range(20, 30)]
    assert sorted(table_offsets(to, "t", 0, form).tolist()) == there
    assert not run().is_new


def test_a_log_that_ends_before_what_was_exported_is_an_error(tmp_path: Path) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 60))
    pipeline(tmp_path / "logs", tmp_path / "to")
    segments(tmp_path / "logs" / "t-0", range(0, 40))
    run = pipeline(tmp_path / "logs", tmp_path / "to")
    assert [each.kind for each in run.findings] == ["log-end-before-export"]
    assert not pipeline(tmp_path / "logs", tmp_path / "to").findings  # it is known
    assert offsets(tmp_path / "to") == list(range(60))


def test_partitions_that_are_gone_are_reported_once(tmp_path: Path) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    for name in ("t-0", "t-1", "t-2", "whole-0"):
        segments(logs / name, range(0, 20))
    pipeline(logs, to)
    shutil.rmtree(logs / "t-1")
    (logs / "t-2" / f"{0:020d}.log").unlink()
    shutil.rmtree(logs / "whole-0")
    found = {(Path(each.file).name, each.severity, each.kind) for each in pipeline(logs, to).findings}
    assert found == {
        ("t-1", "error", "partition-missing"),
        ("t-2", "error", "partition-missing"),
        ("whole-0", "warning", "partition-missing"),  # a topic may be deleted
    }
    assert not pipeline(logs, to).is_new
    assert len(offsets(to)) == 60
    segments(tmp_path / "elsewhere" / "t-0", range(0, 30))
    assert not pipeline(tmp_path / "elsewhere", to).findings  # which never had the others


def test_topics_are_selected_and_kafkas_own_only_by_name(tmp_path: Path) -> None:
    pipeline(DEMO, tmp_path / "some", topic=("*er*",), exclude=("users",))
    assert {row["topic"] for row in table(tmp_path / "some")} == {"orders"}
    pipeline(DEMO, tmp_path / "own", topic=("__consumer_*",))
    assert {row["topic"] for row in table(tmp_path / "own")} == {"__consumer_offsets"}
    with pytest.raises(UnreadableError, match=r"no topic oders in .* \(there are"):
        pipeline(DEMO, tmp_path / "none", topic=("oders",))
    assert not (tmp_path / "none").exists() or not list((tmp_path / "none").glob("topic=*"))


@pytest.mark.parametrize("topic", [".hidden", "_brokerless-pipeline", "_runs", "a=b", "topic=x", "...", "-", "x" * 249])
def test_no_topics_name_leads_out_of_the_tables(tmp_path: Path, topic: str) -> None:
    segments(tmp_path / "logs" / f"{topic}-0", range(0, 20))
    segments(tmp_path / "logs" / "plain-0", range(0, 20))
    pipeline(tmp_path / "logs", tmp_path / "to")
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "to"}
    found = {path.parent.name: pq.read_table(path, partitioning=None).num_rows
             for path in (tmp_path / "to").glob("topic=*/*.parquet")}  # fmt: skip
    legal = {"plain"} | ({topic} if "=" not in topic else set())  # as Kafka takes no such name
    assert found == {f"topic={each}": 20 for each in legal}
    assert len(own_table(tmp_path / "to", "runs")) == 1


def test_two_runs_at_a_time_and_other_formats_are_refused(tmp_path: Path) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 20))
    pipeline(tmp_path / "logs", tmp_path / "to")
    with (
        only_export(str(tmp_path / "to" / PRIVATE)),
        pytest.raises(UsageError, match="another export writes here"),
    ):
        pipeline(tmp_path / "logs", tmp_path / "to")
    with pytest.raises(UsageError, match="is within"):
        pipeline(tmp_path / "logs", tmp_path / "logs" / "to")
    segments(tmp_path / "logs" / "t-0", range(0, 40))
    with pytest.raises(UsageError, match="this was exported without dates"):
        pipeline(tmp_path / "logs", tmp_path / "to", by_date=True)


@pytest.mark.parametrize("changed", [{"isolation": "read_committed"}, {"decoding": Decoding()}])
def test_other_settings_than_those_of_the_tables_are_refused_also_where_nothing_is_new(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 20))
    pipeline(tmp_path / "logs", tmp_path / "to")
    with pytest.raises(UsageError, match="topic=t: this was exported with"):
        pipeline(tmp_path / "logs", tmp_path / "to", **changed)
    assert not pipeline(tmp_path / "logs", tmp_path / "to").is_new


def test_a_path_without_logs_and_a_target_inside_what_is_searched(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnreadableError, match="empty"):
        pipeline(tmp_path / "empty", tmp_path / "to")
    segments(tmp_path / "root" / "kafka" / "t-0", range(0, 20))
    (tmp_path / "root" / "loop").symlink_to(tmp_path / "root")
    run = pipeline(tmp_path / "root" / "kafka", tmp_path / "root" / "tables")
    assert offsets(tmp_path / "root" / "tables") == list(range(20))
    assert run.log_directories == 1


def test_a_refused_run_leaves_nothing(tmp_path: Path) -> None:
    logs, to = segments(tmp_path / "logs" / "t-0", range(0, 20)).parent, tmp_path / "new" / "to"
    refused: list[dict[str, Any]] = [{"topic": ("nosuch",)}, {"spark": "nowhere[7]"}]
    for settings in refused:
        with pytest.raises(BrokerlessError):
            run_pipeline(Settings((str(logs),), str(to), report=False, **settings))
        assert {path.name for path in tmp_path.iterdir()} == {"logs"}
    pipeline(logs, to)
    with pytest.raises(BrokerlessError):
        pipeline(logs, to, topic=("nosuch",))
    assert pipeline(logs, to).interrupted is None


def test_without_verification_the_tables_are_the_same(tmp_path: Path) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 50), range(50, 100), wrong=(20,))
    run = pipeline(tmp_path / "logs", tmp_path / "to", verify=False)
    assert offsets(tmp_path / "to") == [*range(20), *range(30, 100)]
    assert [(each.firstOffset, each.lastOffset, each.kind) for each in run.ranges] == [(20, 29, "not-exported")]
    assert not pipeline(tmp_path / "logs", tmp_path / "to", verify=False).is_new


def test_following_goes_on_where_the_files_ended(tmp_path: Path) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 20))
    settings = Settings((str(tmp_path / "logs"),), str(tmp_path / "to"), form="parquet", report=False, spark="none")
    runs = follow(settings, 0.01)
    assert [each.next_offset for each in next(runs).exported] == [20]
    assert not next(runs).is_new
    segments(tmp_path / "logs" / "t-0", range(0, 50))
    assert [(each.start_offset, each.next_offset) for each in next(runs).exported] == [(20, 50)]
    runs.close()
    assert offsets(tmp_path / "to") == list(range(50))
    assert len(own_table(tmp_path / "to", "runs")) == 2  # those with something new


def test_the_page_shows_what_was_found(tmp_path: Path) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 50), wrong=(20,))
    run = pipeline(tmp_path / "logs", tmp_path / "to", report=True)
    (page,) = run.pages
    assert page == str(tmp_path / "to" / PRIVATE / "report.html")
    text = Path(page).read_text()
    assert "the checksum of the batch does not match" in text
    assert str(tmp_path / "logs") in text
