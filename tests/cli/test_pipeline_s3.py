"""A pipeline from a bucket into a bucket: as from a directory into one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from tests.jobs.pipeline.works import PRIVATE, segments
from tests.s3 import ENVIRONMENT, S3

import brokerless

pytestmark = pytest.mark.xdist_group("s3")


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_a_bucket_becomes_tables_in_a_bucket_once(s3: S3, tmp_path: Path, form: str) -> None:
    segments(tmp_path / "t-0", range(0, 50), wrong=(20,))
    url = s3.upload(tmp_path, f"pipeline-{form}")
    to, name = s3.url(f"tables-{form}"), f"{s3.bucket}/tables-{form}"
    options = {**ENVIRONMENT, "AWS_ENDPOINT_URL": s3.endpoint, "AWS_ALLOW_HTTP": "true"}
    table_options = options if form == "delta" else None

    def run() -> Any:
        return brokerless.pipeline(url, to, form=form, report=False, table_options=table_options)

    first = run()
    assert [(each.firstOffset, each.lastOffset) for each in first.ranges] == [(20, 29)]
    assert not run().is_new
    segments(tmp_path / "t-0", range(50, 80))
    s3.upload(tmp_path, f"pipeline-{form}")
    second = run()
    assert (second.segments_verified, second.ranges) == (1, [])
    if form == "parquet":
        fs = s3.file_system()
        files = [path for path in fs.find(f"{name}/topic=t") if path.endswith(".parquet")]
        found = ds.dataset(files, filesystem=fs).to_table()["offset"].to_pylist()
        damaged = ds.dataset(f"{name}/{PRIVATE}/damaged/damaged.parquet", filesystem=fs).to_table()
    else:
        rows, damaged = (
            pa.table(DeltaTable(f"{to}/{each}", storage_options=options).to_pyarrow_table())
            for each in ("t", f"{PRIVATE}/damaged")
        )
        found = [row["kafka"]["offset"] for row in rows.to_pylist()]
    assert sorted(found) == [*range(20), *range(30, 80)]
    assert damaged["firstOffset"].to_pylist() == [20]
