"""Tables in an object store: of Delta by the environment's settings, of Iceberg by its catalogue's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.jobs.pipeline.works import segments
from tests.jobs.tables import log_of, rows
from tests.s3 import S3

from brokerless.api.log import open as open_log
from brokerless.api.pipeline import pipeline
from brokerless.errors import UsageError
from brokerless.findings import Finding
from brokerless.jobs.pipeline import maintenance
from brokerless.table_formats.catalog import Catalog

pytestmark = pytest.mark.xdist_group("s3")


def test_deltas_tables_in_s3_go_on(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    source, to = log_of(tmp_path / "orders-0", [b"a", b"b"]), s3.url("delta-lake")
    assert [each.records for each in open_log(source).export(to, as_="delta")] == [2]
    assert open_log(source).export(to, as_="delta") == []
    log_of(source, [b"c"], first=2)
    assert [each.records for each in open_log(source).export(to, as_="delta")] == [1]
    found = pa.table(DeltaTable(f"{to}/orders").to_pyarrow_table())
    assert [row["value"] for row in rows(found.to_pylist())] == [b"a", b"b", b"c"]
    check_deleted_files(s3, source, to, as_="delta")


def check_deleted_files(s3: S3, source: Path, to: str | None, **settings: Any) -> None:
    """Files that somebody deleted are an error of each run, until that is accepted; others are no trouble."""
    file_system = s3.file_system()
    files = [each for each in file_system.find(f"{s3.bucket}/{(to or '').partition('bucket/')[2]}")
             if each.endswith(".parquet") and "/orders/" in each]  # fmt: skip
    assert len(files) == 3
    found: list[Finding] = []
    for number in range(3):
        assert open_log(source).export(to, on_damage=found.append, **settings) == []
        texts = [each.message.partition(", so that")[0] for each in found]
        if not number:
            assert texts == []
            file_system.rm(files[:1])
        if number == 1:
            assert texts == [f"1 data files that the table lists are not there (s3://{files[0]})"]
            assert (found[0].severity, found[0].kind) == ("error", "exported-files-missing")
            settings["allow_removed"] = True
            found.clear()
    assert found == []


def test_a_pipeline_in_s3_with_a_catalogue_of_glue_keeps_no_files_that_no_snapshot_has(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(maintenance, "_FEW", 2)
    source, to = segments(tmp_path / "logs" / "orders-0", range(0, 50)).parent, s3.url("pipeline")
    properties = {"type": "glue"}
    for service in ("glue", "s3"):
        own = {"endpoint": s3.endpoint, "region": "us-east-1", "access-key-id": "key", "secret-access-key": "secret"}
        properties |= {f"{service}.{name}": value for name, value in own.items()}
    settings: dict[str, Any] = {"catalog": Catalog("aws", properties), "report": False}
    assert pipeline(source, to, **settings).is_new
    segments(source / "orders-0", range(50, 80))
    segments(source / "orders-1", range(0, 20))
    assert pipeline(source, to, **settings).is_new
    assert not pipeline(source, to, **settings).is_new
    catalog = load_catalog("aws", **properties)
    maintenance.maintain_iceberg(catalog.load_table("kafka.orders"), 1 << 20, 0)
    orders = catalog.load_table("kafka.orders")
    assert orders.scan("kafka.timestamp > '2000-01-01T00:00:00+00:00'").to_arrow().num_rows == 100
    data = s3.file_system().find(f"{s3.bucket}/pipeline/kafka/orders/data")
    assert len([each for each in data if each.endswith(".parquet")]) == 1


def test_icebergs_tables_in_s3_are_in_a_catalogue(s3: S3, tmp_path: Path) -> None:
    source, to = log_of(tmp_path / "orders-0", [b"a", b"b"]), s3.url("lake")
    with pytest.raises(UsageError, match="in an object store need a catalogue"):
        open_log(source).export(to, as_="iceberg")
    properties = {
        "type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": s3.url("warehouse"),
        "s3.endpoint": s3.endpoint, "s3.access-key-id": "key", "s3.secret-access-key": "secret",
        "s3.region": "us-east-1",
    }  # fmt: skip
    catalog = Catalog("prod", properties)
    assert [each.records for each in open_log(source).export(to, as_="iceberg", catalog=catalog)] == [2]
    log_of(source, [b"c"], first=2)
    assert [each.records for each in open_log(source).export(to, as_="iceberg", catalog=catalog)] == [1]
    found = load_catalog("prod", **properties).load_table("kafka.orders")
    assert found.location() == f"{to}/kafka/orders"
    assert [row["value"] for row in rows(found.scan().to_arrow().to_pylist())] == [b"a", b"b", b"c"]
    check_deleted_files(s3, source, to, as_="iceberg", catalog=catalog)
    # The catalogue decides where its tables are.
    raw = Catalog("prod", properties, namespace="raw")
    assert [each.records for each in open_log(source).export(None, as_="iceberg", catalog=raw)] == [3]
    elsewhere = load_catalog("prod", **properties).load_table("raw.orders")
    assert elsewhere.location().startswith(s3.url("warehouse"))
    assert elsewhere.scan().to_arrow().num_rows == 3
