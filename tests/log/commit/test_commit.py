"""A commit of many partitions is all or nothing: for readers while it happens, and for everybody after a crash."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.log.killed_commit import AFTER, BEFORE, CONFIG, QUERY, commit_all, prepare, visible, write
from tests.log.whole_batches import batch
from tests.opening import replace_call

import brokerless
from brokerless.errors import UnreadableError, UnwritableError, UsageError
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import (
    GrowingPartition,
    Journal,
    Renaming,
    committing,
    last_batch,
    load_journal,
    write_journal,
)
from brokerless.log.commit.commit import commit, commit_locked, discard, recover_commit
from brokerless.log.commit.log_opener import open_log
from brokerless.log.commit.partition_writer import NewPartition, PartitionWriter, unfinished_name
from brokerless.log.storage.directory_lock import lock_directory
from brokerless.log.storage.location import Location

ROOT = Path(__file__).parents[3]
JOURNAL = names.COMMIT_JOURNAL
UNFINISHED = unfinished_name("new", 1)


@pytest.mark.slow(reason="a process for each step")
def test_a_kill_at_any_step_leaves_all_of_a_commit_or_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.log.killed_commit", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=True)
    *wrong, seen = done.stdout.splitlines()
    assert not wrong
    assert not done.stderr
    counts = {what: int(count) for what, count in re.findall(r"(\w+) (\d+)", seen)}
    assert min(counts["before"], counts["after"], counts["recovered"]) > 20


def test_it_continues_partitions_and_adds_new_ones(tmp_path: Path) -> None:
    pieces = prepare(tmp_path)
    assert visible(tmp_path) == BEFORE
    commit_all(tmp_path, pieces)
    assert visible(tmp_path) == AFTER
    assert last_batch(tmp_path, QUERY[0]) == QUERY[1]
    assert last_batch(tmp_path, "another") is None
    assert {path.name for path in tmp_path.iterdir() if path.is_dir()} == {*AFTER}
    assert (tmp_path / names.CLEAN_SHUTDOWN).exists()
    epochs = brokerless.open(tmp_path).partition("old", 0).batches(["partitionLeaderEpoch"])
    assert {epoch for each in epochs for epoch in each["partitionLeaderEpoch"].to_pylist()} == {3}
    assert [each for each in brokerless.open(tmp_path).verify() if each.severity != "info"] == []


def test_readers_pass_over_what_a_journal_lists_and_say_so(tmp_path: Path) -> None:
    commit_all(tmp_path, prepare(tmp_path))
    base = max(segment for segment in segments(tmp_path / "old-0") if segment <= 10)
    assert base == 10
    journal = Journal.begun().grow(GrowingPartition("old", 0, base, 10, 3)).decide([Renaming(UNFINISHED, "new-1")])
    write_journal(tmp_path, journal)
    assert load_journal(Location(str(tmp_path / JOURNAL))) == journal
    assert visible(tmp_path) == {**{name: AFTER[name] for name in ("new-0", "old-1")}, "old-0": BEFORE["old-0"]}
    found = brokerless.open(tmp_path)
    (old,) = [each for each in found.partitions if each.path.endswith("old-0")]
    (finding,) = [each for each in old.verify() if each.kind == "uncommitted"]
    assert (finding.severity, finding.offset) == ("warning", 10)
    assert "a commit to this log directory was cut short" in finding.message
    with committing(tmp_path):
        (finding,) = [each for each in brokerless.open(tmp_path / "old-0").verify() if each.kind == "uncommitted"]
    assert (finding.severity, finding.offset) == ("info", 10)
    assert "a commit to this log directory is going on, or was cut short" in finding.message
    (hidden,) = [each for each in found.directory.others if each.topic == "new"]
    assert [each.kind for each in hidden.findings] == ["uncommitted"]
    # By its own path, a partition is the same as in its log directory.
    records = brokerless.open(tmp_path / "old-0").partition("old", 0).records(["offset"])
    assert [offset for each in records for offset in each["offset"].to_pylist()] == BEFORE["old-0"]


def segments(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.log"))


def test_a_reader_that_meets_the_end_of_a_commit_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_all(tmp_path, prepare(tmp_path))
    write_journal(tmp_path, Journal.begun().decide([Renaming(UNFINISHED, "new-1")]))
    import brokerless.log.directory as module

    listings = 0

    def listed(location: Location) -> object:
        nonlocal listings
        found = real(location)
        if location.path == str(tmp_path):
            listings += 1
            (tmp_path / JOURNAL).unlink(missing_ok=True)  # the commit ends right behind
        return found

    real = replace_call(monkeypatch, module, "entries", listed)
    assert visible(tmp_path) == AFTER
    assert listings == 2


def test_what_cannot_be_appended_undoes_all_of_it(tmp_path: Path) -> None:
    new, growing = prepare(tmp_path)
    growing["old", 1] = [write(tmp_path, "old-1", 3, 2)]
    files = sorted(path for path in tmp_path.rglob("old-*/*"))
    with pytest.raises(UsageError, match=r"old-1: .* offset 3, and the partition ends at 5: .* later offsets, or none"):
        commit_all(tmp_path, (new, growing))
    assert visible(tmp_path) == BEFORE
    assert sorted(path for path in tmp_path.rglob("old-*/*")) == files
    assert (tmp_path / names.CLEAN_SHUTDOWN).exists()
    assert not (tmp_path / JOURNAL).exists()
    growing["old", 1] = [write(tmp_path, "old-1", 50, 2)]
    commit_all(tmp_path, (new, growing))
    assert visible(tmp_path) == AFTER


def test_a_full_disk_undoes_all_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = prepare(tmp_path)
    import brokerless.log.write.segment_writer as module

    appended = 0
    real = module.SegmentWriter.append

    def append(*arguments: object) -> int:
        nonlocal appended
        appended += 1
        if appended == 4:
            raise OSError(28, "No space left on device")
        return real(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module.SegmentWriter, "append", append)
    with pytest.raises(UnwritableError, match="No space left on device"):
        commit_all(tmp_path, pieces)
    assert visible(tmp_path) == BEFORE
    assert not (tmp_path / JOURNAL).exists()
    commit_all(tmp_path, pieces)
    assert visible(tmp_path) == AFTER


def test_several_new_partitions_are_there_or_none(tmp_path: Path) -> None:
    one, other = write(tmp_path, "a-0", 0, 3), write(tmp_path, "b-0", 0, 3)
    with PartitionWriter(NewPartition(tmp_path, "b", 0)) as output:
        output.commit()
    with pytest.raises(UsageError, match="b-0: this partition exists already"):
        commit(tmp_path, [one, other])
    assert [*visible(tmp_path)] == ["b-0"]
    commit(tmp_path, [one])
    assert [*visible(tmp_path)] == ["a-0", "b-0"]


def test_what_a_broker_went_on_with_is_not_undone(tmp_path: Path) -> None:
    """A stop before the decision; then a broker is started, which leads in a new epoch and appends."""
    with open_log(tmp_path, "old", 0, CONFIG) as log:
        log.append(batch(0, 5, epoch=3))
        log.roll()
        log.append(batch(5, 5, epoch=3))
        log.append(batch(10, epoch=4))
    write_journal(tmp_path, Journal.begun().grow(GrowingPartition("old", 0, 5, 5, 3)))
    (tmp_path / names.CLEAN_SHUTDOWN).unlink()
    assert visible(tmp_path) == {"old-0": [0, 1, 2, 3, 4]}
    with pytest.raises(UsageError, match=r"a broker ran .* from offset 5 on; to keep it, remove .*-commit"):
        recover_commit(tmp_path)
    (tmp_path / JOURNAL).unlink()
    assert visible(tmp_path) == {"old-0": [*range(11)]}


def test_nothing_is_undone_where_the_last_writer_has_stopped_cleanly(tmp_path: Path) -> None:
    """A journal that is no commit's of this directory, or older than what was written since."""
    with open_log(tmp_path, "old", 0, CONFIG) as log:
        log.append(batch(0, 5, epoch=3))
    write_journal(tmp_path, Journal.begun().grow(GrowingPartition("old", 0, 0, 0, -1)))
    for again in (lambda: recover_commit(tmp_path), lambda: open_log(tmp_path, "old", 0), lambda: commit(tmp_path, [])):
        with pytest.raises(UsageError, match=r"removes what old-0 has from offset 0 on; but .* has stopped cleanly"):
            again()
    (tmp_path / JOURNAL).unlink()
    assert visible(tmp_path) == {"old-0": [*range(5)]}
    assert (tmp_path / names.CLEAN_SHUTDOWN).exists()


def test_who_recovers_a_commit_says_what_becomes_of_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with open_log(tmp_path, "old", 0, CONFIG) as log:
        log.append(batch(0, 5, epoch=3))
    (tmp_path / names.CLEAN_SHUTDOWN).unlink()
    write_journal(tmp_path, Journal.begun().grow(GrowingPartition("old", 0, 0, 0, 3)))
    recover_commit(tmp_path)
    assert caplog.messages == [
        f"{tmp_path}: a commit that a stop had cut short was undone; offsets 0 to 4 of old-0 were removed"
    ]
    caplog.clear()
    new = write(tmp_path, "new-0", 0, 3)
    write_journal(tmp_path, Journal.begun().decide([Renaming(new.directory, new.name)]))
    recover_commit(tmp_path)
    assert caplog.messages == [f"{tmp_path}: a commit that a stop had cut short was completed: new-0"]


def test_a_partition_that_came_meanwhile_is_not_mistaken_for_the_new_one(tmp_path: Path) -> None:
    new = write(tmp_path, "new-0", 0, 3)
    write_journal(tmp_path, Journal.begun().decide([Renaming(new.directory, new.name)]))
    (tmp_path / "new-0").mkdir()
    with pytest.raises(UsageError, match="new-0: this partition came meanwhile; move it away, and run this again"):
        recover_commit(tmp_path)
    (tmp_path / "new-0").rmdir()
    recover_commit(tmp_path)
    assert visible(tmp_path) == {"new-0": [0, 1, 2]}


def test_what_was_decided_is_not_discarded_where_its_end_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = prepare(tmp_path)
    real = Path.rename

    def rename(path: Path, target: Path) -> Path:
        if path.name.startswith("new-1."):
            raise OSError(5, "Input/output error")
        return real(path, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match="Input/output error"):
        commit_all(tmp_path, pieces)
    monkeypatch.undo()
    assert visible(tmp_path) == BEFORE
    discard(tmp_path, [*pieces[0], *(piece for each in pieces[1].values() for piece in each)])
    assert visible(tmp_path) == BEFORE
    recover_commit(tmp_path)
    assert visible(tmp_path) == AFTER


def test_what_a_broker_deleted_meanwhile_is_reported(tmp_path: Path) -> None:
    one, other = write(tmp_path, "a-0", 0, 3), write(tmp_path, "b-0", 0, 3)
    write_journal(tmp_path, Journal.begun().decide(Renaming(each.directory, each.name) for each in (one, other)))
    shutil.rmtree(tmp_path / other.directory)
    with pytest.raises(UsageError, match="what b-0 should become was deleted"):
        recover_commit(tmp_path)
    recover_commit(tmp_path)
    assert [*visible(tmp_path)] == ["a-0"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 1}', '{"version": 1, "growing": [1], "new": []}', "7"])
def test_a_journal_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    with PartitionWriter(NewPartition(tmp_path, "a", 0)) as output:
        output.commit()
    (tmp_path / JOURNAL).write_text(text)
    with pytest.raises(UnreadableError, match=r"not a journal of brokerless's commits .*; move the file away"):
        brokerless.open(tmp_path)
    with pytest.raises(UnreadableError, match=r"not a journal of brokerless's commits .*; move the file away"):
        recover_commit(tmp_path)
    (tmp_path / JOURNAL).write_text('{"version": 3}')
    with pytest.raises(UsageError, match="a newer brokerless wrote this"):
        brokerless.open(tmp_path)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_old_formats_give_way_where_they_can(tmp_path: Path, magic: int, codec: str) -> None:
    import pyarrow as pa

    from brokerless.api.loading import load
    from brokerless.jobs.load.routing import Routing
    from brokerless.tables.batcher import BatchSettings

    rows = pa.record_batch({"value": [b"a", b"b", b"c"]})
    settings = BatchSettings(codec, message_format=magic)
    for name in ("piece", "log"):
        load([rows], str(tmp_path / name), Routing("old"), settings)
    log = (tmp_path / "piece" / "old-0" / f"{0:020}.log").read_bytes()
    with PartitionWriter(NewPartition(tmp_path / "log", "old", 0, may_exist=True), has_offsets=False) as output:
        output.append(np.frombuffer(log, np.uint8))
        piece = output.finish()
    directory = tmp_path / "log"
    with lock_directory(directory, exclusive=False) as held, committing(directory):
        if (magic, codec) == (0, "gzip"):
            with pytest.raises(UsageError, match="format v0 say their offsets inside"):
                commit_locked(directory, held, [], {("old", 0): [piece]})
            assert visible(directory) == {"old-0": [0, 1, 2]}
            return
        commit_locked(directory, held, [], {("old", 0): [piece]})
    partition = brokerless.open(directory).partition("old", 0)
    found = [row for each in partition.records(["offset", "value"]) for row in each.to_pylist()]
    assert [(row["offset"], row["value"]) for row in found] == list(enumerate([b"a", b"b", b"c"] * 2))
    assert [each for each in partition.verify() if each.severity == "error"] == []


def test_nothing_is_put_after_krafts_own_log(tmp_path: Path) -> None:
    commit_all(tmp_path, ([write(tmp_path, "__cluster_metadata-0", 0, 2)], {}))
    growing = {("__cluster_metadata", 0): [write(tmp_path, "__cluster_metadata-0", 5, 2)]}
    with pytest.raises(UsageError, match="a broker does not start with other records in it"):
        commit_all(tmp_path, ([], growing))
