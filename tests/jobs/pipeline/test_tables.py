"""Tables of Iceberg and Delta: exported once, with the pipeline's own tables beside them, in one format."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable, write_deltalake
from tests.jobs.pipeline.works import PRIVATE, own_table, pipeline, segments, table_offsets
from tests.jobs.tables import own_catalog

from brokerless.errors import UsageError

each_format = pytest.mark.parametrize("form", ["iceberg", "delta"])


@each_format
def test_what_is_new_is_added_and_findings_are_replaced(tmp_path: Path, form: str) -> None:
    segments(tmp_path / "logs" / "a.b-0", range(0, 50), wrong=(20,))
    segments(tmp_path / "logs" / "a.b-1", range(0, 30))
    first = pipeline(tmp_path / "logs", tmp_path / "to", form=form)
    assert not pipeline(tmp_path / "logs", tmp_path / "to", form=form).is_new
    segments(tmp_path / "logs" / "a.b-0", range(0, 80), wrong=(20, 60))
    third = pipeline(tmp_path / "logs", tmp_path / "to", form=form)
    assert sorted(table_offsets(tmp_path / "to", "a.b", 0, form)) == [*range(20), *range(30, 60), *range(70, 80)]
    assert sorted(table_offsets(tmp_path / "to", "a.b", 1, form)) == list(range(30))
    assert [each.firstOffset for each in (*first.ranges, *third.ranges)] == [20, 60]
    assert [(row["topic"], row["firstOffset"]) for row in own_table(tmp_path / "to", "damaged", form)] == [
        ("a.b", 20), ("a.b", 60)
    ]  # fmt: skip
    assert {row["isInTable"] for row in own_table(tmp_path / "to", "damaged", form)} == {False}
    assert {row["kind"] for row in own_table(tmp_path / "to", "findings", form)} == {"checksum-mismatch"}
    assert sorted(row["records"] for row in own_table(tmp_path / "to", "runs", form)) == [0, 20, 70]


@each_format
def test_a_root_has_tables_of_one_format(tmp_path: Path, form: str) -> None:
    segments(tmp_path / "logs" / "t-0", range(0, 20))
    pipeline(tmp_path / "logs", tmp_path / "to", form=form)
    with pytest.raises(UsageError, match=f"the tables here are {form}, not parquet"):
        pipeline(tmp_path / "logs", tmp_path / "to", form="parquet")


@each_format
@pytest.mark.parametrize("topic", ["_brokerless-pipeline", "runs", "catalog.db", "kafka_pipeline", "..."])
def test_topics_may_have_the_names_of_the_pipelines_own_tables(tmp_path: Path, form: str, topic: str) -> None:
    segments(tmp_path / "logs" / f"{topic}-0", range(0, 20))
    pipeline(tmp_path / "logs", tmp_path / "to", form=form)
    assert sorted(table_offsets(tmp_path / "to", topic, 0, form)) == list(range(20))
    assert len(own_table(tmp_path / "to", "runs", form)) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"logs", "to"}


def test_topics_that_would_share_a_table_are_refused(tmp_path: Path) -> None:
    for name in ("a.b-0", "a_b-0"):
        segments(tmp_path / "logs" / name, range(0, 20))
    run = pipeline(tmp_path / "logs", tmp_path / "to", form="iceberg")
    assert "a.b and a_b would have one table" in run.refused["a_b"]
    assert sorted(table_offsets(tmp_path / "to", "a.b", 0, "iceberg")) == list(range(20))


@pytest.mark.parametrize("form", ["iceberg", "delta"])
def test_damaged_of_an_older_version_gets_the_columns_of_this_one(tmp_path: Path, form: str) -> None:
    logs, to = tmp_path / "logs", tmp_path / "to"
    segments(logs / "t-0", range(0, 40), wrong=(20,))
    pipeline(logs, to, form=form)
    if form == "iceberg":
        with own_catalog(to).load_table(("kafka_pipeline", "damaged")).update_schema() as schema:
            schema.delete_column("isInTable")
    else:
        own = DeltaTable(str(to / PRIVATE / "damaged"))
        older = own.to_pyarrow_table().drop_columns("isInTable")
        write_deltalake(own, older, mode="overwrite", schema_mode="overwrite")
    assert "isInTable" not in own_table(to, "damaged", form)[0]
    segments(logs / "t-0", range(0, 40), range(40, 80), wrong=(20, 60))
    pipeline(logs, to, form=form)
    assert [(row["firstOffset"], row["isInTable"]) for row in own_table(to, "damaged", form)] == [
        (20, False), (60, False)
    ]  # fmt: skip
