"""Options of methods that the commands have as well."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import brokerless
from brokerless.cli import main
from brokerless.errors import UsageError
from tests.golden import broker_data

DEMO = "demo/data"


def test_a_conversion_goes_on_by_its_manifest(tmp_path: Path) -> None:
    log, manifest = brokerless.open(DEMO), tmp_path / "converted.json"
    first = log.convert(tmp_path / "to", codec="zstd", manifest=manifest)
    assert len(first) == len(log)
    assert log.convert(tmp_path / "to", codec="zstd", manifest=manifest) == []
    shutil.rmtree(tmp_path / "to" / "orders-0")
    (again,) = log.convert(tmp_path / "to", codec="zstd", manifest=manifest)
    assert again.task.name == "orders-0"
    with pytest.raises(UsageError, match="another"):
        log.convert(tmp_path / "to", codec="lz4", manifest=manifest)


def test_frequent_keys_are_as_many_as_requested() -> None:
    partition = brokerless.open(DEMO).partition("orders", 0)
    assert [len(partition.compact(top=top)[0].frequent_keys) for top in (0, 2)] == [0, 2]
    assert partition.compact(key_memory=64)[0].totals == partition.compact()[0].totals


def test_a_query_takes_the_options_of_its_tables() -> None:
    log = brokerless.open(broker_data("clean"))
    query = "SELECT count(*) AS n FROM records WHERE topic = 'txn'"
    counts = [
        log.sql(query, **options).read_all()["n"][0].as_py()  # type: ignore[arg-type]
        for options in ({}, {"isolation": "read_committed"}, {"control": True})
    ]
    records = log.topic("txn").records
    assert counts == [
        records().read_all().num_rows,
        records(isolation="read_committed").read_all().num_rows,
        records(control=True).read_all().num_rows,
    ]
    assert len({*counts}) == 3
    limit = log.sql("SELECT current_setting('memory_limit') AS size", memory_limit=64 << 20).read_all()
    assert limit["size"][0].as_py().startswith("64")


def test_a_restart_takes_the_bound_of_batches() -> None:
    log = brokerless.open(broker_data("clean"))
    assert log.restart(max_batch_bytes=1 << 20).is_harmless == log.restart().is_harmless
    bounded = log.restart(max_batch_bytes=1)
    assert bounded.directory is not None
    assert log.partition("txn", 0).restart(max_batch_bytes=1 << 20).is_harmless


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"blank_fields": "customer"}, r"give \['customer'\]"),
        ({"blank": True, "blank_fields": ["customer"]}, "exclude each other"),
        ({"where": 5}, "where: 5 is not a text"),
        ({"max_batch_bytes": -1}, "no number of bytes above 0"),
        ({"max_batch_bytes": "x"}, "not a whole number"),
    ],
)
def test_an_erasure_takes_what_its_options_are(options: dict[str, Any], says: str, tmp_path: Path) -> None:
    """Letters of a field's name are no fields, of which none would be blanked."""
    with pytest.raises(UsageError, match=says):
        brokerless.open("demo/data").erase(tmp_path / "to", **{"keys": ["o-101230"], **options})


def test_a_read_takes_what_its_options_are() -> None:
    log = brokerless.open("demo/data")
    for options in ({"max_batch_bytes": 0}, {"done": None}):
        with pytest.raises(UsageError, match=r"max_batch_bytes|done"):
            log.records(**options)


@pytest.mark.parametrize("method", ["compact", "trim"])
def test_a_topic_that_there_is_not_is_refused_and_a_pattern_is_taken(method: str) -> None:
    log = brokerless.open(DEMO)
    options: dict[str, Any] = {"free": "10kB"} if method == "trim" else {}
    with pytest.raises(UsageError, match="there is no topic ordres; did you mean orders"):
        getattr(log, method)(topics=["ordres"], **options)
    one, all_of_them = (getattr(log, method)(topics=[each], **options) for each in ("orders", "ord*"))
    assert str(one) == str(all_of_them)


def test_one_batch_and_a_table_are_rows_to_load(tmp_path: Path) -> None:
    rows = pa.RecordBatch.from_pylist([{"key": b"a", "value": b"1"}, {"key": b"b", "value": b"2"}])
    for name, given in (("batch", rows), ("table", pa.table(rows)), ("list", [rows])):
        loaded = brokerless.load(given, str(tmp_path / name), brokerless.Routing(topic="letters", partition=0))
        assert sum(each.records for each in loaded.partitions) == 2


def refused(text: str, arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert text in capsys.readouterr().err


def test_a_log_directory_that_is_given_twice_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, link = brokerless.open(DEMO), tmp_path / "link"
    link.symlink_to(Path(DEMO).resolve())
    for method in (log.restart, log.audit):
        with pytest.raises(UsageError, match="link is given twice"):
            method(log_dirs=[link])
    refused("is given twice", ["restart", DEMO, DEMO], capsys)


def test_a_state_of_several_partitions_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match="has 8 partitions; give that of the metadata"):
        brokerless.rebuild(DEMO, tmp_path, state=DEMO)
    refused("--state: demo/data has 8 partitions", ["rebuild", DEMO, "--to", str(tmp_path), "--state", DEMO], capsys)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"to": ["x"], "rate": 5}, "rate= and config= go with bootstrap_servers= only"),
        ({"bootstrap_servers": "localhost:1", "replace": True}, "replace= and metadata= are for to="),
        ({"bootstrap_servers": "localhost:1", "offsets": "x"}, "offsets= needs groups="),
    ],
)
def test_a_restore_takes_options_of_its_target_alone(options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        brokerless.restore(DEMO, **options)


def test_options_that_need_or_exclude_others_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, to = brokerless.open(DEMO), tmp_path / "to"
    with pytest.raises(UsageError, match="sign_key= needs manifest="):
        log.erase(to, keys=["o-101230"], sign_key="key.pem")
    with pytest.raises(UsageError, match="are for as_=iceberg"):
        log.export(to, catalog="hive")
    for size in (5, 1 << 40):
        with pytest.raises(UsageError, match=r"segment_bytes: .* is not in what Kafka allows"):
            log.compact(to, segment_bytes=size)
    refused("is not in what Kafka allows", ["compact", DEMO, "--to", str(to), "--segment-bytes", "5"], capsys)
    assert not to.exists()
