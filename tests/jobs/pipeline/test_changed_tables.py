"""Tables that others changed: what is wrong with one topic's table is that topic's finding, and the others go on."""

from __future__ import annotations

import copy
import errno
import itertools
import json
import os
import re
import shutil
from collections import Counter
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, TableFeatures
from tests.cli.conftest import Run, run  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tests.jobs.pipeline.altered_tables import trial
from tests.jobs.pipeline.works import own_table, table_offsets
from tests.jobs.tables import FORMATS, delta, exported, iceberg, log_of, table

import brokerless
from brokerless.errors import UnwritableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.pipeline.job import PipelineRun
from brokerless.jobs.pipeline.recording import PRIVATE
from brokerless.log.storage import file_tree
from brokerless.log.storage.location import Location
from brokerless.log.storage.write_errors import refused_write
from brokerless.table_formats.catalog import TableFormat
from brokerless.table_formats.data_files import data_file_name
from brokerless.table_formats.delta.tables import DeltaTables
from brokerless.table_formats.iceberg.tables import IcebergTables
from brokerless.typed.topic_type import Decoding

pytestmark = pytest.mark.xdist_group("exported")
each_format = pytest.mark.parametrize("form", FORMATS)


class Pipeline:
    """Runs over the topics a, t and zz, of which somebody changes the table of t."""

    def __init__(self, directory: Path, form: TableFormat, is_decoded: bool = True) -> None:
        self.directory, self.logs, self.to, self.count = directory, directory / "logs", directory / "to", 0
        self.form: TableFormat = form
        self.decoding = Decoding() if is_decoded else None
        assert self.run().refused == {}

    def run(self) -> PipelineRun:
        for topic in ("a", "t", "zz"):
            log_of(self.logs / f"{topic}-0", [b'{"n":%d}' % self.count], first=self.count)
        self.count += 1
        return self.run_again()

    def run_again(self) -> PipelineRun:
        to = str(self.to)
        return brokerless.pipeline([self.logs], to, as_=self.form, decode=self.decoding, report=False)

    def rows(self, topic: str) -> int:
        return len(table(self.to, topic, self.form))

    def findings(self) -> list[str]:
        """All that the pipeline's own table has, if there is one."""
        root = self.to / ("kafka_pipeline" if self.form == "iceberg" else PRIVATE) / "findings"
        return [row["kind"] for row in own_table(self.to, "findings", self.form)] if root.exists() else []

    def check_refused(self, reason: str) -> PipelineRun:
        """The next run refuses t alone, and says so once."""
        done = self.run()
        assert list(done.refused) == ["t"]
        assert re.search(reason, done.refused["t"]), done.refused
        assert (self.rows("a"), self.rows("zz")) == (self.count, self.count)
        again = self.run_again()
        assert (list(again.refused), again.findings) == (["t"], [])
        assert self.findings() == ["topic-refused"]
        return done

    def check_goes_on(self) -> None:
        """The next run has all records of t, and no finding is left."""
        assert self.run().refused == {}
        assert [self.rows(topic) for topic in ("a", "t", "zz")] == [self.count] * 3
        assert self.findings() == []


class Started(Protocol):
    def __call__(self, form: TableFormat, is_decoded: bool = True) -> Pipeline: ...


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> Started:
    """Returns a pipeline after its first run, which runs once for all tests. Each gets its files in the same place, of
    which Iceberg's metadata have the paths."""
    made: dict[tuple[TableFormat, bool], Pipeline] = {}

    def start(form: TableFormat, is_decoded: bool = True) -> Pipeline:
        own = made.get((form, is_decoded))
        if own is None:
            own = made[form, is_decoded] = Pipeline(tmp_path_factory.mktemp("started") / "own", form, is_decoded)
            shutil.copytree(own.directory, own.directory.with_name("kept"), symlinks=True)
        else:
            shutil.rmtree(own.directory)
            shutil.copytree(own.directory.with_name("kept"), own.directory, symlinks=True)
        return copy.copy(own)

    return start


NUMBERS = itertools.count(1)
MADE: dict[TableFormat, tuple[str, ...]] = {
    "delta": ("rows deleted by vectors", "column renamed", "constraint", "feature", "partitioned otherwise"),
    "iceberg": ("field renamed", "table renamed", "partition added", "column renamed"),
}


@each_format
def test_nights_go_on_over_tables_that_others_altered(form: TableFormat, tmp_path: Path) -> None:
    """Any number, of all alterations: ``python -m tests.jobs.pipeline.altered_tables DIRECTORY 50``."""
    counts = Counter[str]()
    assert list(trial(tmp_path, form, 3, counts, MADE[form])) == []
    assert {name for name in counts if name.startswith(form)} == {f"{form}: {name}" for name in MADE[form]}


def test_a_table_with_a_feature_that_deltalake_does_not_write(started: Started) -> None:
    own = started("delta")
    delta(own.to, "t").alter.add_feature(TableFeatures.DomainMetadata, allow_protocol_versions_increase=True)
    log_of(own.logs / "t-0", [b'{"n":1,"m":2}'], first=1)
    reason = own.run_again().refused["t"]
    assert re.search("t: deltalake can add no column to the table: .*DomainMetadata.*; drop from the table", reason)


@each_format
def test_a_table_without_its_metadata(form: TableFormat, started: Started) -> None:
    own = started(form)
    if form == "iceberg":
        (metadata,) = [Path(iceberg(own.to, "t").metadata_location.removeprefix("file://"))]
    else:
        metadata = sorted((own.to / "t" / "_delta_log").glob("*.json"))[-1]
    there = metadata.read_bytes()
    metadata.unlink() if form == "iceberg" else metadata.write_bytes(b"{")
    done = own.check_refused(
        "is not there|the newest entry of the table's log is cut off, as after a power failure; remove this file, "
    )
    if form == "iceberg":
        advice = "put it back, or export to another directory or namespace"
        assert done.refused["t"] == f"kafka.t: a file that the table needs is not there: {metadata}; {advice}"
    metadata.write_bytes(there)
    own.check_goes_on()


@pytest.mark.parametrize("left", ["nothing", "a part", "zeros"])
def test_a_merged_file_of_delta_that_was_not_on_the_disk_as_the_power_failed(left: str, started: Started) -> None:
    """Its commit was. The remedy that is printed gives the files back that were merged; the pipeline's own table is
    mended by the next run."""
    own = started("delta")
    for _ in range(3):  # less than are merged by a run
        assert own.run().refused == {}
    for directory in (own.to / "t", own.to / PRIVATE / "runs"):
        before = {*DeltaTable(str(directory)).file_uris()}
        merged = DeltaTable(str(directory))
        merged.optimize.compact()
        path = Path(min({*merged.file_uris()} - before).removeprefix("file://"))
        data = path.read_bytes()
        path.unlink()
        if left != "nothing":
            path.write_bytes(data[: len(data) // 2] if left == "a part" else bytes(len(data)))
    newest = sorted((own.to / "t" / "_delta_log").glob("*.json"))[-1]
    own.check_refused("the newest entry of the table's log merged files into one that is not there whole")
    newest.unlink()
    own.check_goes_on()
    assert len(own_table(own.to, "runs", "delta")) >= 5


def test_a_table_of_iceberg_without_the_property(started: Started) -> None:
    own = started("iceberg")
    with iceberg(own.to, "t").transaction() as transaction:
        transaction.remove_properties("brokerless.export")
    own.check_goes_on()  # the snapshot says it as well
    changed = iceberg(own.to, "t")
    with changed.transaction() as transaction:
        transaction.remove_properties("brokerless.export")
    changed = iceberg(own.to, "t")
    with changed.transaction() as transaction:
        transaction.update_snapshot().fast_append().commit()
    changed = iceberg(own.to, "t")
    older = [each.snapshot_id for each in changed.metadata.snapshots][:-1]
    changed.maintenance.expire_snapshots().by_ids(older).commit()
    own.check_refused("does not say any more what was exported; put its property brokerless.export back")


@each_format
def test_a_commit_that_fails_is_its_topics(
    form: TableFormat, started: Started, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = started(form)
    store = IcebergTables if form == "iceberg" else DeltaTables
    root = own.to / "t" if form == "delta" else own.to / "kafka" / "t" / "data"
    left = root / "date=2023-11-14" / f"partition-0-{99:020d}-brokerless-{'0' * 32}.parquet"
    for name in ("commit", "prepare", "listed_files"):
        works: Any = getattr(store, name)

        def fails(self: Any, *args: Any, works: Any = works) -> Any:
            topics = [getattr(each, "topic", each) for each in args]
            if "t" in topics:
                raise UnwritableError(f"{self.describe('t')}: no space")
            return works(self, *args)

        if name == "listed_files":  # it is read only where a killed run left something
            left.write_bytes(b"x")
        monkeypatch.setattr(store, name, fails)
        own.check_refused("no space")
        monkeypatch.undo()
        own.check_goes_on()
    assert not left.exists()


@each_format
def test_an_export_of_one_topic_ends_where_it_cannot_be_written(
    form: TableFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: Any, *__: Any) -> None:
        raise UnwritableError("no space")

    monkeypatch.setattr(IcebergTables if form == "iceberg" else DeltaTables, "commit", fails)
    with pytest.raises(UnwritableError, match="no space"):
        exported(log_of(tmp_path / "logs" / "t-0", [b"a"]), tmp_path / "out", form)


@pytest.mark.parametrize("is_decoded", [True, False])
@pytest.mark.parametrize("version", [0, 1, 2])
def test_delta_that_was_restored_to_any_version(version: int, is_decoded: bool, started: Started) -> None:
    own = started("delta", is_decoded)
    own.run()
    assert [each["operation"] for each in reversed(delta(own.to, "t").history())][:3] == [
        "CREATE TABLE", "SET TBLPROPERTIES", "WRITE"
    ]  # fmt: skip
    delta(own.to, "t").restore(version)
    assert own.rows("t") == (version == 2)
    assert own.run_again().refused == {}
    assert own.rows("t") == 2
    own.check_goes_on()
    delta(own.to, "t").restore(version)
    own.check_goes_on()
    offsets = [row["kafka"]["offset"] for row in table(own.to, "t", "delta")]
    assert offsets == list(range(own.count))


def test_delta_that_was_restored_to_what_its_log_has_no_more(started: Started) -> None:
    own = started("delta")
    own.run()
    table_ = delta(own.to, "t")
    for version in (1, 2, 3):  # of which an engine keeps checkpoints alone
        DeltaTable(str(own.to / "t"), version=version).create_checkpoint()
    table_.restore(1)
    for each in sorted((own.to / "t" / "_delta_log").glob("*.json"))[:2]:
        each.unlink()
    own.check_refused("restored to version 1, of which its log does not say any more what was exported")


@each_format
def test_data_files_that_somebody_deleted(form: TableFormat, tmp_path: Path, run: Run) -> None:  # noqa: F811
    source, to = log_of(tmp_path / "logs" / "t-0", [b"a", b"b"], start_ms=1_700_006_400_000), tmp_path / "out"
    exported(source, to, form)
    file, *others = to.rglob("*.parquet")
    assert pq.ParquetFile(file).metadata.num_rows == 2
    assert not others
    file.unlink()
    findings: list[Finding] = []
    assert exported(source, to, form, findings) == []
    assert [(each.severity, each.kind) for each in findings] == [("error", "exported-files-missing")]
    assert findings[0].message.startswith(f"1 data files that the table lists are not there ({file})")
    assert run("export", source.parent, "--to", to, "--as", form).exit_code == 1
    assert run("export", source.parent, "--to", to, "--as", form, "--allow-removed").exit_code == 0
    exported(source, to, form, allow_removed=True)
    log_of(source, [b"c"], first=2)
    assert [each.records for each in exported(source, to, form, findings)] == [1]


def test_a_file_that_another_engine_lists_under_another_form_of_its_url_is_there_and_stays(tmp_path: Path) -> None:
    """Hadoop's ``file:/path``; the name of the file is one that an export gives, after what was exported."""
    source, to = log_of(tmp_path / "logs" / "t-0", [b"a"]), tmp_path / "out"
    exported(source, to, "iceberg")
    (entry,) = (each.file for each in iceberg(to, "t").scan().plan_files())
    first = Path(entry.file_path.removeprefix("file://"))
    other = first.with_name(data_file_name("2023-11-14", 0, 7).rpartition("/")[2])
    shutil.copy(first, other)
    written = copy.deepcopy(entry)
    written._data[1] = f"file:{other}"
    with iceberg(to, "t").transaction() as changes, changes.update_snapshot().fast_append() as append:
        append.append_data_file(written)
    log_of(source, [b"b"], first=1)
    assert [each.records for each in exported(source, to, "iceberg")] == [1]  # without a finding
    assert other.exists()
    assert len(table(to, "t", "iceberg")) == 3


def test_a_table_of_a_format_version_that_is_not_written_is_refused_before_its_files_are(started: Started) -> None:
    own = started("iceberg")
    path = Path(iceberg(own.to, "t").metadata_location.removeprefix("file://"))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"format-version": 3, "next-row-id": 0}))
    before = set((own.to / "kafka" / "t").rglob("*.parquet"))
    own.check_refused("format version 3, which pyiceberg .* reads and does not write; export to another directory")
    assert set((own.to / "kafka" / "t").rglob("*.parquet")) == before


def test_a_table_of_delta_with_column_mapping_is_refused_with_what_to_do(started: Started) -> None:
    own = started("delta")
    log = own.to / "t" / "_delta_log"
    *_, newest = sorted(log.glob("*.json"))
    actions = [json.loads(line) for each in sorted(log.glob("*.json")) for line in each.read_text().splitlines()]
    (*_, metadata) = (each for each in actions if "metaData" in each)
    metadata["metaData"]["configuration"] |= {
        "delta.columnMapping.mode": "name",
        "delta.columnMapping.maxColumnId": "99",
    }
    schema = with_mapping(json.loads(metadata["metaData"]["schemaString"]))
    metadata["metaData"]["schemaString"] = json.dumps(schema)
    entry = [{"protocol": {"minReaderVersion": 2, "minWriterVersion": 5}}, metadata]
    (log / f"{int(newest.stem) + 1:020d}.json").write_text("".join(f"{json.dumps(each)}\n" for each in entry))
    own.check_refused("column mapping.*DROP FEATURE columnMapping")


def with_mapping(type_: Any) -> Any:
    """A type of Delta's schemas whose fields have other names in files, as far as the protocol goes."""
    if isinstance(type_, list):
        return [with_mapping(each) for each in type_]
    if not isinstance(type_, dict):
        return type_
    own = {name: with_mapping(each) for name, each in type_.items()}
    if "nullable" in own:
        own["metadata"] = {"delta.columnMapping.id": next(NUMBERS), "delta.columnMapping.physicalName": own["name"]}
    return own


def test_data_files_that_somebody_deleted_are_a_pipelines_finding(started: Started) -> None:
    for form in FORMATS:
        own = started(form)
        root = own.to / ("t" if form == "delta" else "kafka/t/data")
        for each in root.rglob("*.parquet"):
            each.unlink()
        done = own.run()
        assert [(each.kind, each.severity) for each in done.findings] == [("exported-files-missing", "error")]
        assert own.rows("a") == 2
        assert own.run_again().findings == []


def test_a_table_that_is_gone_is_made_again(started: Started) -> None:
    own = started("delta")
    shutil.rmtree(own.to / "t")
    own.check_goes_on()
    with pytest.raises(UsageError, match="keys and values decoded"):
        exported(own.logs / "t-0", own.to, "delta")


PLACES = [("iceberg", "kafka_pipeline"), *(("delta", f"{PRIVATE}/{name}") for name in ("runs", "findings"))]
write: Any = file_tree.write
each_place = pytest.mark.parametrize(("form", "place"), [*PLACES, *((form, None) for form in (*FORMATS, "parquet"))])


@each_place
def test_a_run_that_cannot_be_recorded_exports_all_the_same(
    form: Any, place: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something is where the pipeline's own tables belong, or the disk with its own files is full."""
    to = tmp_path / "to"
    if place is not None:
        (to / place).parent.mkdir(parents=True)
        (to / place).write_text("in the way")
    for topic in ("a", "t"):
        log_of(tmp_path / "logs" / f"{topic}-0", [b"1", b"2"])
    with (tmp_path / "logs" / "t-0" / f"{0:020d}.log").open("ab") as file:
        file.write(b"no batch" * 20)

    def run_again() -> PipelineRun:
        return brokerless.pipeline([tmp_path / "logs"], str(to), as_=form, report=place is None)

    for count in (2, 3):
        with monkeypatch.context() as patched:
            if place is None:
                patched.setattr(file_tree, "write", full)
            done = run_again()
        (own,) = (each for each in done.findings if each.kind == "run-not-recorded")
        assert (own.severity, own.file) == ("error", str(to / PRIVATE))
        assert re.search("not a directory|exists|make room on this disk", own.message.lower()), own.message
        assert (done.refused, offsets(to, "a", form), offsets(to, "t", form)) == ({}, [*range(count)], [0, 1])
        log_of(tmp_path / "logs" / "a-0", [b"3"], first=count)
    if place is not None:
        (to / place).unlink()
    done = run_again()
    assert "run-not-recorded" not in {each.kind for each in done.findings}
    assert (offsets(to, "a", form), offsets(to, "t", form)) == ([0, 1, 2, 3], [0, 1])
    assert {(row["topic"], row["severity"]) for row in own_table(to, "findings", form)} == {("t", "error")}
    assert done.id in {row["runId"] for row in own_table(to, "runs", form)}
    assert run_again().interrupted is None


def full(location: Location, data: bytes) -> None:
    if PRIVATE in location.path:
        raise refused_write(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), location.path)
    write(location, data)


def offsets(to: Path, topic: str, form: str) -> list[int]:
    return sorted(table_offsets(to, topic, 0, form).tolist())
