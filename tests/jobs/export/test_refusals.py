"""Topics that cannot go where they should: each is a finding with a remedy, and all others go on."""

from __future__ import annotations

import errno
import json
import os
import random
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq
import pytest
from tests.cli.conftest import Run, run  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tests.jobs.tables import log_of

import brokerless
from brokerless.errors import UnreadableError, UnwritableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.export.refusals import as_findings, have_one_cause, reason_of
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.log.storage.write_errors import refused_write
from brokerless.table_formats.export_state import RefusedTopicError

pytestmark = pytest.mark.xdist_group("exported")
FORMS = ("parquet", "iceberg", "delta")
each_form = pytest.mark.parametrize("form", FORMS)


def logs(root: Path, **values: bytes) -> Path:
    for topic, value in values.items():
        log_of(root / "logs" / f"{topic}-0", [value])
    return root / "logs"


def in_the_way(to: Path, form: str) -> Path:
    """Something else where the topic t would go."""
    place = to / ("topic=t/other.parquet" if form == "parquet" else f"t/_delta_log/{0:020d}.json")
    place.parent.mkdir(parents=True)
    place.write_text("{}\n")
    return place


def topics(to: Path) -> set[str]:
    """The topics that have data files."""
    found = {str(each.relative_to(to)) for each in to.rglob("partition-*.parquet")}
    return {name for name in ("a", "t", "zz") if any(f"topic={name}/" in each or f"{name}/d" in each for each in found)}


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_others_go_on_when_one_is_refused(form: str, tmp_path: Path, run: Run) -> None:  # noqa: F811
    source, to = logs(tmp_path, a=b"1", t=b"2", zz=b"3"), tmp_path / "to"
    place = in_the_way(to, form)
    result = run("export", source, "--to", to, "--as", form)
    (line,) = result.err.splitlines()
    assert line.startswith(f"{source / 't-0'}: the topic t was left out: ")
    assert (result.exit_code, topics(to)) == (1, {"a", "zz"})
    assert "2 records of 2 partitions in 2 files" in result.lines[-1]
    place.unlink()
    place.parent.rmdir()
    assert (run("export", source, "--to", to, "--as", form).exit_code, topics(to)) == (0, {"a", "t", "zz"})


@pytest.mark.parametrize("form", ["parquet", "delta"])
def test_where_none_is_left_the_reason_is_an_error(form: Any, tmp_path: Path, run: Run) -> None:  # noqa: F811
    source, to = logs(tmp_path, t=b"1"), tmp_path / "to"
    in_the_way(to, form)
    result = run("export", source, "--to", to, "--as", form)
    assert (result.exit_code, result.err.count("\n")) == (2, 1)
    with pytest.raises((UsageError, UnreadableError, UnwritableError)):
        brokerless.open(source).export(to, as_=form, on_damage=lambda _: None)
    logs(tmp_path, a=b"2")
    with pytest.raises((UsageError, UnreadableError, UnwritableError)):
        brokerless.open(source).export(to, as_=form)
    assert topics(to) == set()
    found: list[Finding] = []
    (done,) = brokerless.open(source).export(to, as_=form, on_damage=found.append)
    assert (done.topic, [(each.kind, each.severity) for each in found]) == ("a", [("topic-refused", "error")])


def test_where_none_of_several_is_left_all_are_named(tmp_path: Path, run: Run) -> None:  # noqa: F811
    """Topics that were deleted and made again, with other IDs."""
    source, to = logs(tmp_path, a=b"1", t=b"2"), tmp_path / "to"
    assert run("export", source, "--to", to).exit_code == 0
    for topic, id_ in (("a", "B"), ("t", "C")):
        (source / f"{topic}-0" / "partition.metadata").write_text(f"version: 0\ntopic_id: {id_}AAAAAAAAAAAAAAAAAAAAQ\n")
    result = run("export", source, "--to", to)
    assert (result.exit_code, result.err.count("\n")) == (2, 1)
    for topic in ("a", "t"):
        assert f"{topic}: {to / f'topic={topic}'}: this is an export of the topic {topic} with ID AAAA" in result.err


LIMIT = 200_000
"""Bytes of a file, after which the operating system refuses to write: as a full disk does, but for one topic alone."""


@contextmanager
def limited() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@each_form
@pytest.mark.parametrize("command", ["export", "pipeline"])
def test_a_disk_that_is_full_for_one_topic(form: str, command: str, tmp_path: Path, run: Run) -> None:  # noqa: F811
    source, to = logs(tmp_path, a=b"1", t=random.Random(1).randbytes(10 * LIMIT), zz=b"3"), tmp_path / "to"
    arguments = [command, source, "--as", form, *(["--no-report"] if command == "pipeline" else []), "--to"]
    assert run(*arguments, tmp_path / "before").exit_code == 0  # what is compiled is kept in files as well
    arguments.append(to)
    with limited():
        done = run(*arguments)
    assert (done.exit_code, topics(to)) == (1, {"a", "zz"}), done.err
    assert done.err.count("File too large") + done.out.count(b"File too large") == 1
    assert not [each for each in to.rglob("*") if "_unfinished" in each.parts and each.is_file()]
    done = run(*arguments)
    assert (done.exit_code, topics(to)) == (0, {"a", "t", "zz"}), done.err
    records = {name: sum(pq.ParquetFile(each).metadata.num_rows for each in files_of(to, name)) for name in topics(to)}
    assert records == {"a": 1, "t": 1, "zz": 1}


def files_of(to: Path, topic: str) -> list[Path]:
    return [each for each in to.rglob("partition-*.parquet") if f"topic={topic}" in each.parts or topic in each.parts]


def test_a_topic_that_fails_later_keeps_what_it_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of two partitions the second one's name cannot be given: the first one is exported, and reported."""
    from brokerless.table_formats import parquet_files

    source, to = logs(tmp_path, a=b"1", t=b"2"), tmp_path / "to"
    log_of(source / "t-1", [b"4"])
    publish = parquet_files.publish_file

    def fails(written: Any, layout: Any) -> None:
        if (layout.topic, layout.partition) == ("t", 1):
            raise UnwritableError(f"{written.name}: {os.strerror(errno.EROFS)}", number=errno.EROFS)
        publish(written, layout)

    monkeypatch.setattr(parquet_files, "publish_file", fails)
    found: list[Finding] = []
    done = brokerless.open(source).export(to, on_damage=found.append)
    assert [(each.topic, each.partition, each.records) for each in done] == [("a", 0, 1), ("t", 0, 1)]
    assert [each.kind for each in found] == ["topic-refused"]
    assert "let this user write there" in found[0].message
    monkeypatch.undo()
    (done,) = brokerless.open(source).export(to)
    assert (done.topic, done.partition, done.records) == ("t", 1, 1)


def test_files_that_are_gone_from_a_memory_of_fsspec(tmp_path: Path) -> None:
    source, to = logs(tmp_path, a=b"1", t=b"2"), f"memory://{tmp_path.name}/out"
    brokerless.open(source).export(to)
    storage = fsspec.filesystem("memory")
    (gone,) = [each for each in storage.find(to) if "topic=t/" in each and each.endswith(".parquet")]
    storage.rm(gone)
    found: list[Finding] = []
    assert brokerless.open(source).export(to, on_damage=found.append) == []
    assert [(each.kind, each.severity) for each in found] == [("exported-files-missing", "error")]


def test_json_has_the_others(tmp_path: Path, run: Run) -> None:  # noqa: F811
    source, to = logs(tmp_path, a=b"1", t=b"2"), tmp_path / "to"
    in_the_way(to, "parquet")
    result = run("export", source, "--to", to, "--json")
    assert [json.loads(line)["topic"] for line in result.lines] == ["a"]


def test_remedies() -> None:
    full, right = os.strerror(errno.ENOSPC), os.strerror(errno.EACCES)
    once = reason_of(UnwritableError(f"/x: {full}", number=errno.ENOSPC))
    assert once.startswith(f"/x: {full}; make room on this disk, and do this again; the next")
    assert "let this user write there" in reason_of(PermissionError(errno.EACCES, right))
    assert reason_of(RefusedTopicError("t", once)) == once
    advised = reason_of(refused_write(OSError(errno.ENOSPC, full), "/x"))
    assert (
        advised
        == f"/x: {full}: make room on this disk, and do this again; the next run goes on where the last commit ended"
    )
    assert reason_of(UnreadableError("/x", f"{full} and {right}")) == f"/x: {full} and {right}"
    assert reason_of(UnwritableError("/x: another reason")) == "/x: another reason"
    assert reason_of(OSError()) == "OSError"


def test_a_finding_names_the_first_partition(tmp_path: Path) -> None:
    source, found = logs(tmp_path, a=b"1", t=b"2"), list[Finding]()
    as_findings(resolve(Location(str(source))).partitions, found.append)("t", "reason")
    assert [(each.file, each.message) for each in found] == [(str(source / "t-0"), "the topic t was left out: reason")]


def refused(topic: str, cause: Exception) -> RefusedTopicError:
    error = RefusedTopicError(topic, f"to/{topic}: {cause}")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("errors", "is_one"),
    [
        ([OSError(errno.ENOSPC, "No space left", f"to/{each}") for each in "ab"], True),
        ([refused(each, UnwritableError(f"to/{each}: denied", number=errno.EACCES)) for each in "ab"], True),
        ([UnreadableError(f"to/{each}", "this is a directory") for each in "ab"], True),
        ([UnreadableError("to/a", "this is a directory"), UnreadableError("to/b", "too large")], False),
        ([OSError(errno.ENOSPC, "No space left"), OSError(errno.EACCES, "Permission denied")], False),
        ([RefusedTopicError(each, "this is the table of another topic") for each in "ab"], False),
    ],
)
def test_topics_have_one_cause_where_their_storage_is_at_fault(errors: list[Exception], is_one: bool) -> None:
    assert have_one_cause(errors) == is_one
