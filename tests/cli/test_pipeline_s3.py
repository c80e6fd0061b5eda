"""A pipeline from a bucket into a bucket: as from a directory into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from tests.jobs.pipeline.works import PRIVATE, segments
from tests.s3 import ENVIRONMENT, S3

import brokerless
from brokerless.cli import main
from brokerless.errors import UsageError
from brokerless.jobs.pipeline.forms import FORMS

pytestmark = pytest.mark.xdist_group("s3")


@pytest.mark.parametrize("form", ["parquet", "delta", "iceberg"])
def test_a_bucket_becomes_tables_in_a_bucket_once(s3: S3, tmp_path: Path, form: str) -> None:
    logs = tmp_path / "logs"
    segments(logs / "t-0", range(0, 50), wrong=(20,))
    url = s3.upload(logs, f"pipeline-{form}")
    to, name = s3.url(f"tables-{form}"), f"{s3.bucket}/tables-{form}"
    options = {**ENVIRONMENT, "AWS_ENDPOINT_URL": s3.endpoint, "AWS_ALLOW_HTTP": "true"}
    table_options = options if form == "delta" else None
    access = {"s3.endpoint": s3.endpoint, "s3.access-key-id": "key", "s3.secret-access-key": "secret"}
    properties = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", **access}
    catalog = brokerless.Catalog("own", properties) if form == "iceberg" else None

    def run() -> Any:
        return brokerless.pipeline(url, to, as_=form, report=False, catalog=catalog, table_options=table_options)

    first = run()
    assert [(each.firstOffset, each.lastOffset) for each in first.ranges] == [(20, 29)]
    assert not run().is_new
    segments(logs / "t-0", range(50, 80))
    s3.upload(logs, f"pipeline-{form}")
    second = run()
    assert (second.segments_verified, second.ranges) == (1, [])
    if form == "parquet":
        fs = s3.file_system()
        files = [path for path in fs.find(f"{name}/topic=t") if path.endswith(".parquet")]
        found = ds.dataset(files, filesystem=fs).to_table()["offset"].to_pylist()
        damaged = ds.dataset(f"{name}/{PRIVATE}/damaged/damaged.parquet", filesystem=fs).to_table()
    elif form == "iceberg":
        own = load_catalog("own", **properties)
        tables = [own.load_table(each) for each in ("kafka.t", "kafka_pipeline.damaged")]
        assert all(each.location().startswith(to) for each in tables)
        rows, damaged = (each.scan().to_arrow() for each in tables)
        found = [row["kafka"]["offset"] for row in rows.to_pylist()]
    else:
        rows, damaged = (
            pa.table(DeltaTable(f"{to}/{each}", storage_options=options).to_pyarrow_table())
            for each in ("t", f"{PRIVATE}/damaged")
        )
        found = [row["kafka"]["offset"] for row in rows.to_pylist()]
    assert sorted(found) == [*range(20), *range(30, 80)]
    assert damaged["firstOffset"].to_pylist() == [20]


@pytest.mark.parametrize("form", ["delta", "iceberg"])
def test_storage_options_suffice_without_credentials_in_the_environment(
    s3: S3, tmp_path: Path, form: Literal["delta", "iceberg"], monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    for name in [*ENVIRONMENT, "AWS_ENDPOINT_URL"]:
        monkeypatch.delenv(name)
    logs = tmp_path / "logs"
    segments(logs / "t-0", range(50))
    url, to = s3.upload(logs, f"without-{form}"), s3.url(f"without-tables-{form}")
    options = {**ENVIRONMENT, "AWS_ENDPOINT_URL": s3.endpoint, "AWS_ALLOW_HTTP": "true"}
    access = {"s3.endpoint": s3.endpoint, "s3.access-key-id": "key", "s3.secret-access-key": "secret",
              "s3.region": "us-east-1"}  # fmt: skip
    catalog = brokerless.Catalog("own", {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", **access})
    own_catalog, own_options = (catalog, None) if form == "iceberg" else (None, options)

    def export(path: str) -> list[Any]:
        log = brokerless.open(url, storage_options=s3.storage_options)
        return log.export(path, as_=form, catalog=own_catalog, storage_options=own_options)

    assert [each.next_offset for each in export(to)] == [50]
    assert export(to) == []
    run = brokerless.pipeline(
        url, s3.url(f"without-pipeline-{form}"), as_=form, report=False, catalog=own_catalog or brokerless.Catalog(),
        table_options=own_options, storage_options=s3.storage_options, to_storage_options=s3.storage_options,
    )  # fmt: skip
    if form == "iceberg":  # whose catalogue has the table of the export
        assert (run.exported, run.findings) == ([], [])
        rows: Any = load_catalog("own", **catalog.properties).load_table("kafka.t").scan().to_arrow()
    else:
        assert [each.next_offset for each in run.exported] == [50]
        rows = pa.table(DeltaTable(f"{to}/t", storage_options=options).to_pyarrow_table())
    assert sorted(each["offset"] for each in rows["kafka"].to_pylist()) == [*range(50)]
    s3.file_system().pipe_file(f"{to}/meta.properties", b"version=1")
    with pytest.raises(UsageError, match="broker's log directory"):
        export(to)


def test_a_key_in_a_url_opens_the_bucket_and_is_not_shown(
    s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    segments(tmp_path / "logs" / "t-0", range(50), wrong=(20,))
    s3.upload(tmp_path / "logs", "with-key/logs")
    root = f"s3://AKEY:hid/den@{s3.bucket}/with-key"
    found: list[brokerless.Finding] = []
    for form in FORMS[1:]:
        log = brokerless.open(f"{root}/logs")
        (done,) = log.export(f"{root}/{form}", as_=form, on_damage=found.append)
        assert done.next_offset == 50
        assert "hid/den" not in repr((log, log.partitions, done, found))
        assert main(["pipeline", f"{root}/logs", "--to", f"{root}/pipeline-{form}", "--as", form]) == 1
    printed = capfd.readouterr()
    assert f"the page is s3://{s3.bucket}/with-key/pipeline-parquet/" in printed.out
    assert "hid/den" not in printed.out + printed.err
    fs = s3.file_system()
    assert any(path.endswith(".parquet") for path in fs.find(f"{s3.bucket}/with-key/pipeline-delta/t"))
    for path in fs.find(f"{s3.bucket}/with-key"):
        assert b"hid/den" not in fs.cat_file(path)
