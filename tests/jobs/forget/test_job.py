"""What stays by rules is readable at any time, whatever writers, forget and prune do in which order."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule
from tests.jobs.backup.disks import DEMO, REPLICAS, earlier, rows_of
from tests.jobs.backup.signing_keys import ed25519_pair
from tests.s3 import S3

import brokerless
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.backup.job import backup as run_plan
from brokerless.jobs.backup.options import BackupOptions
from brokerless.jobs.backup.plan import plan_backup
from brokerless.jobs.forget import prune as pruning
from brokerless.jobs.forget.job import forget
from brokerless.jobs.forget.prune import prune
from brokerless.jobs.forget.rules import KeepRules, decide
from brokerless.jobs.rewrite.plan import Source
from brokerless.jobs.run.types import ALONE
from brokerless.log.backups.snapshot import Snapshot
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location
from brokerless.views.jobs.backup import prune_lines

DAY = 86_400_000
NOW = 1_800_000_000_000


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "backup"


def snapshot(number: int, created: int, end: int = 10, **members: Any) -> Snapshot:
    partition = {
        "topic": "a", "topicId": "A" * 22, "partition": 0, "startOffset": 0, "endOffset": end, "committed": -1,
        "records": 1, "sizeInBytes": 1, "newSizeInBytes": 1, "isCompacted": False, "nodeId": 1, "directory": "d",
    }  # fmt: skip
    found: dict[str, Any] = {
        "snapshot": 1, "id": f"{number:08x}", "name": None, "parent": None, "tool": "t", "created": created,
        "ended": created, "clusterId": None, "metadata": None, "disks": [], "partitions": [partition], "missing": [],
        "files": [], "findings": [], "segments": {"sha256": "0" * 64, "rows": 0},
    }  # fmt: skip
    from brokerless.values import from_members

    return from_members({**found, **members}, Snapshot)


def kept(snapshots: list[Snapshot], rules: KeepRules, stored: dict[str, int] | None = None) -> list[int]:
    decisions, _ = decide(snapshots, stored or {}, rules, now=NOW, path="b")
    return [int(each.snapshot.id, 16) for each in decisions if each.reasons]


def test_the_newest_of_each_period_stays() -> None:
    every = [snapshot(at, NOW - (40 - at) * DAY // 2) for at in range(40)]
    assert kept(every, KeepRules(last=3)) == [37, 38, 39]
    assert kept(every, KeepRules(within_ms=DAY)) == [38, 39]
    daily = kept(every, KeepRules(daily=5))
    assert len(daily) == 5
    assert daily[-1] == 39
    assert kept(every, KeepRules(last=1, daily=5)) == daily
    assert len(kept(every, KeepRules(monthly=2))) == 2
    assert kept(every, KeepRules(yearly=3)) == [11, 39]


def test_what_came_late_into_the_store_and_a_clock_that_lies_only_keep_more() -> None:
    every = [snapshot(at, NOW - (10 - at) * DAY) for at in range(10)]
    same = {each.id: NOW for each in every}
    assert set(kept(every, KeepRules(daily=3), same)) >= {7, 8, 9}
    assert set(kept([*every, snapshot(99, NOW + 9 * DAY)], KeepRules(last=1))) == {99}


def test_what_is_not_complete_or_shrinks_crowds_out_nothing() -> None:
    missing = [{"topic": "b", "topicId": "B" * 22, "partition": 0, "reason": "gone"}]
    every = [snapshot(at, NOW - (10 - at) * DAY, end=10 + at) for at in range(5)]
    false = [snapshot(at, NOW - (10 - at) * DAY, end=1) for at in range(5, 8)]
    partial = [snapshot(8, NOW - DAY, end=99, missing=missing)]
    assert kept([*every, *false, *partial], KeepRules(last=2)) == [3, 4, 5, 6, 7, 8]
    _, findings = decide([*every, *false], {}, KeepRules(last=2), now=NOW, path="b")
    assert [each.kind for each in findings] == ["snapshot-shrinks"] * 3


def test_the_last_one_of_a_topic_that_is_gone_stays_for_a_while() -> None:
    other = {**brokerless_partition(), "topic": "b", "topicId": "B" * 22}
    for age, expected in ((30, [1, 2]), (100, [2])):
        old = snapshot(1, NOW - age * DAY, partitions=[brokerless_partition(), other])
        assert kept([old, snapshot(2, NOW)], KeepRules(last=1)) == expected


def test_of_a_set_that_was_joined_again_the_last_complete_one_counts() -> None:
    missing = [{"topic": "b", "topicId": "B" * 22, "partition": 0, "reason": "gone"}]
    sets = [snapshot(at, NOW - (10 - at) * DAY, name="night", parts=[f"{at:08x}"]) for at in range(3)]
    other = snapshot(3, NOW - 7 * DAY, name="noon", parts=["0000000a"])
    assert kept([*sets, other], KeepRules(last=9)) == [2, 3]
    partial = snapshot(4, NOW, name="night", parts=["0000000b"], missing=missing)
    assert kept([*sets, other, partial], KeepRules(last=9)) == [2, 3, 4]


class TestDrilled:
    def test_the_last_ones_that_passed_a_drill_stay(self) -> None:
        every = [snapshot(at, NOW - (10 - at) * DAY) for at in range(6)]
        own = {each.id for each in every[:4]}
        decisions, _ = decide(every, {}, KeepRules(drilled=2), now=NOW, path="b", drilled=own)
        stays = {int(each.snapshot.id, 16): each.reasons for each in decisions if each.reasons}
        assert stays == {2: ("drilled",), 3: ("drilled",), 5: ("last",)}

    def test_drills_that_were_recorded_count(self, place: Path) -> None:
        first, second, third = (brokerless.backup(DEMO, place).snapshot.id for _ in range(3))
        brokerless.Backup(f"{place}@{first}").drill(record=True)
        brokerless.Backup(f"{place}@{second}").drill(record=True, topics=["orders"])
        result = brokerless.Backup(place).forget(keep_drilled=3)
        assert result.forgotten == (second,)
        assert {each.snapshot.id: each.reasons for each in result.decisions}[first] == ("drilled",)
        assert third not in result.forgotten

    def test_evidence_that_is_damaged_or_of_a_drill_that_failed_counts_for_nothing(self, place: Path) -> None:
        first, second, _ = (brokerless.backup(DEMO, place).snapshot.id for _ in range(3))
        for each in (first, second):
            brokerless.Backup(f"{place}@{each}").drill(record=True)
        one, other = sorted((place / ".brokerless" / "drills").iterdir())
        one.write_text(one.read_text().replace('"isClean": true', '"isClean": false', 1))
        other.write_text(other.read_text()[:99])
        result = brokerless.Backup(place).forget(keep_drilled=3)
        assert result.forgotten == (first, second)
        assert [each.file for each in result.findings] == [str(other)]

    def test_only_what_a_trusted_key_has_signed_counts(self, place: Path, tmp_path: Path) -> None:
        private, public = ed25519_pair(tmp_path)
        first, second, _ = (brokerless.backup(DEMO, place, sign_key=private).snapshot.id for _ in range(3))
        brokerless.Backup(f"{place}@{first}").drill(record=True, sign_key=private)
        brokerless.Backup(f"{place}@{second}").drill(record=True)
        result = brokerless.Backup(place).forget(keep_drilled=3, trust=[public])
        assert result.forgotten == (second,)
        assert [each.kind for each in result.findings] == ["snapshot-unsigned"]


def brokerless_partition() -> dict[str, Any]:
    from brokerless.values import members

    return members(snapshot(0, 0).partitions[0])


@pytest.mark.parametrize("counts", [{}, {"last": -1, "daily": 3}])
def test_rules_that_keep_nothing_are_refused(counts: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        KeepRules(**counts)


def test_nothing_changes_without_apply(place: Path) -> None:
    for _ in range(3):
        brokerless.backup(REPLICAS[2], place)
    before = sorted(place.rglob("*"))
    backup = brokerless.Backup(place)
    assert len(backup.forget(keep_last=1).forgotten) == 2
    assert backup.prune(grace=0).objects == 0
    assert sorted(place.rglob("*")) == before
    with pytest.raises(UsageError, match="give a backup and rules"):
        backup.forget()


def test_objects_go_when_no_snapshot_names_them_and_not_before(place: Path, tmp_path: Path) -> None:
    brokerless.backup(earlier(tmp_path / "earlier", 3), place, name="first")
    brokerless.backup(DEMO, place, name="second")
    backup = brokerless.Backup(place)
    assert brokerless.Backup(f"{place}@first").forget(apply=True).forgotten
    assert [each.name for each in backup.snapshots()] == ["second"]
    young = backup.prune(apply=True)
    assert (young.objects, young.young > 0) == (0, True)
    pruned = backup.prune(grace=0, apply=True)
    assert pruned.objects > young.young
    assert rows_of(place) == rows_of(DEMO)
    checked = backup.check("all")
    assert (checked.findings, checked.unnamed) == ((), 0)


def test_a_snapshot_that_cannot_be_read_stops_pruning_until_it_is_forgotten(place: Path) -> None:
    brokerless.backup(REPLICAS[1], place, name="first")
    brokerless.backup(REPLICAS[2], place, name="second")
    first, second = brokerless.Backup(place).snapshots()
    file = next(place.glob(f".brokerless/snapshots/*{first.id}.parquet"))
    file.write_bytes(b"")
    with pytest.raises(UnreadableError, match="nothing is removed"):
        brokerless.Backup(place).prune(grace=0, apply=True)
    assert brokerless.Backup(place).forget(keep_last=1).findings
    assert brokerless.Backup(f"{place}@{first.id}").forget(apply=True).forgotten == (first.id,)
    with pytest.raises(UnreadableError, match="nothing is removed"):
        brokerless.Backup(place).prune(apply=True)
    brokerless.Backup(place).prune(grace=0, apply=True)
    assert [each.id for each in brokerless.Backup(place).snapshots()] == [second.id]
    assert not brokerless.Backup(place).check("all").findings


def test_what_a_store_holds_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokerless.backup(REPLICAS[2], place)
    brokerless.Backup(f"{place}@latest").forget(apply=True)

    def refuse(location: Location) -> None:
        raise brokerless.UnwritableError(f"{location}: Object Lock")

    monkeypatch.setattr(pruning, "remove_object", refuse)
    found = prune(Location(str(place)), grace_ms=0, apply=True, now=NOW * 2).findings
    assert {each.kind for each in found} == {"object-not-removed"}


@pytest.mark.parametrize("data", [b"", None], ids=["empty", "gone"])
def test_what_cannot_be_read_fills_no_place_and_stays(data: bytes | None, place: Path) -> None:
    first, *_ = [brokerless.backup(REPLICAS[2], place, name=name).snapshot.id for name in ("one", "two", "three")]
    last = max((place / ".brokerless" / "snapshots").glob("*.parquet"))
    last.unlink() if data is None else last.write_bytes(data)
    result = brokerless.Backup(place).forget(keep_last=1, apply=True)
    assert result.forgotten == (first,)
    assert len(result.findings) == 1
    assert rows_of(f"{place}@two") == rows_of(REPLICAS[2])


def test_hours_of_grace_are_no_fewer_than_none(place: Path) -> None:
    brokerless.backup(REPLICAS[2], place)
    with pytest.raises(brokerless.UsageError, match="grace: this is a number of hours from 0 on"):
        brokerless.Backup(place).prune(grace=-1)


def test_what_a_killed_run_was_writing_goes(place: Path) -> None:
    brokerless.backup(REPLICAS[2], place)
    object_ = next(place.rglob("*.rsm-manifest"))
    segment_id = object_.name[21:].partition(".")[0]
    other = object_.with_name(f"{object_.name.replace(segment_id, segment_id[::-1])}.tmp")
    other.write_bytes(b"half")
    assert prune(Location(str(place)), grace_ms=0, apply=True, now=NOW * 2).objects == 1
    assert not other.exists()
    assert not brokerless.Backup(place).check("all").findings


@pytest.mark.xdist_group("s3")
class TestObjectLock:
    def test_what_it_holds_is_listed_with_its_date_and_stays(self, s3: S3) -> None:
        fs = s3.file_system()
        fs.call_s3("create_bucket", Bucket="locked", ObjectLockEnabledForBucket=True)
        brokerless.backup(DEMO, "s3://locked/kafka")
        held, freed, forever, *_ = (each for each in sorted(fs.find("locked/kafka")) if each.endswith(".log"))
        until = datetime(2100, 1, 1, tzinfo=UTC)
        locks = {held: until, freed: datetime(2001, 1, 1, tzinfo=UTC)}
        for path, at in locks.items():
            bucket, key, _ = fs.split_path(path)
            lock = {"Mode": "GOVERNANCE", "RetainUntilDate": at}
            fs.call_s3("put_object_retention", Bucket=bucket, Key=key, Retention=lock)
        bucket, key, _ = fs.split_path(forever)
        fs.call_s3("put_object_legal_hold", Bucket=bucket, Key=key, LegalHold={"Status": "ON"})
        backup = brokerless.Backup("s3://locked/kafka")
        brokerless.Backup("s3://locked/kafka@latest").forget(apply=True)
        planned = backup.prune(grace=0)
        ends = {each.location.path: each.until for each in planned.held}
        assert ends == {f"s3://{held}": int(until.timestamp() * 1000), f"s3://{forever}": None}
        assert f"s3://{held}: held by Object Lock until 2100-01-01T00:00:00Z" in list(prune_lines(planned))
        assert backup.prune(grace=0, apply=True).findings == ()
        fs.invalidate_cache()
        assert sorted(each for each in fs.find("locked/kafka") if each.endswith(".log")) == sorted([held, forever])

    def test_a_store_that_does_not_say_is_one_sentence(self, s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
        place = s3.url("unsaid")
        brokerless.backup(REPLICAS[2], place)
        brokerless.Backup(f"{place}@latest").forget(apply=True)
        assert brokerless.Backup(place).prune(grace=0).unknown is None  # this bucket has no Object Lock

        def refuse(*_: object, **__: object) -> None:
            raise PermissionError("Access Denied")

        monkeypatch.setattr(type(s3.file_system()), "call_s3", refuse)
        result = brokerless.Backup(place).prune(grace=0)
        assert result.held == ()
        text = "whether Object Lock holds objects is not known: the store does not say so: Access Denied"
        assert text in list(prune_lines(result))


@pytest.mark.xdist_group("s3")
def test_the_same_in_an_object_store(s3: S3, tmp_path: Path) -> None:
    where, options = s3.url("backup/forgotten"), {"storage_options": s3.storage_options}
    brokerless.backup(earlier(tmp_path / "earlier", 3), where, name="first", **options)
    brokerless.backup(DEMO, where, name="second", **options)
    backup = brokerless.Backup(where, **options)
    assert len(backup.forget(keep_last=1, apply=True).forgotten) == 1
    assert backup.prune(apply=True).objects == 0
    assert prune(Location(where, s3.storage_options), grace_ms=0, apply=True, now=NOW * 2).objects
    assert rows_of(brokerless.open(where, **options)) == rows_of(DEMO)
    checked = backup.check("all")
    assert (checked.findings, checked.unnamed) == ((), 0)


def test_the_same_in_memory() -> None:
    where = f"memory://{os.getpid()}/forgotten"
    for _ in range(2):
        brokerless.backup(REPLICAS[2], where)
    assert len(brokerless.Backup(where).forget(keep_last=1, apply=True).forgotten) == 1
    assert prune(Location(where), grace_ms=0, apply=True, now=NOW * 2).objects
    assert rows_of(where) == rows_of(REPLICAS[2])
    fsspec.filesystem("memory").rm(f"/{os.getpid()}", recursive=True)


class Backups(RuleBasedStateMachine):
    """Writers that plan at one time and end at another, forget and prune between them, and a clock that the machine
    sets: each snapshot that is listed is whole."""

    plans: Bundle[Any] = Bundle("plans")

    def __init__(self) -> None:
        super().__init__()
        root = Path(os.environ["PYTEST_MACHINE"])
        self.place = root / os.urandom(8).hex()
        self.disks = sorted(each for each in root.glob("disk-*"))
        self.now = NOW
        self.seen: set[Path] = set()

    def stamp(self) -> None:
        """Gives what is new the machine's time."""
        for each in self.place.rglob("*"):
            if each.is_file() and each not in self.seen:
                os.utime(each, (self.now / 1000, self.now / 1000))
                self.seen.add(each)

    @rule(target=plans, disk=st.integers(1, 2))
    def begin(self, disk: int) -> Any:
        directory = resolve(Location(str(self.disks[disk])))
        options = BackupOptions(segment_size=20_000)
        plan = plan_backup([Source.all_of(directory)], Location(str(self.place)), options)
        return plan, self.now

    @rule(begun=consumes(plans))
    def end(self, begun: Any) -> None:
        plan, at = begun
        if self.now - at < pruning.GRACE_MS:
            run_plan(plan, ALONE)
            self.stamp()

    @rule(hours=st.sampled_from([1, 30, 100]))
    def wait(self, hours: int) -> None:
        self.now += hours * 3_600_000

    @rule(last=st.integers(1, 2))
    def forget(self, last: int) -> None:
        if self.place.exists():
            forget(Location(str(self.place)), KeepRules(last=last), apply=True, now=self.now)
            self.stamp()

    @rule()
    def forget_the_newest(self) -> None:
        if self.place.exists() and brokerless.Backup(self.place).snapshots():
            forget(Location(f"{self.place}@latest"), None, apply=True)
            self.stamp()

    @rule()
    def prune(self) -> None:
        if self.place.exists():
            prune(Location(str(self.place)), apply=True, now=self.now)

    @invariant()
    def each_snapshot_is_whole(self) -> None:
        if self.place.exists():
            assert not brokerless.Backup(self.place).check("all").findings

    def teardown(self) -> None:
        shutil.rmtree(self.place, ignore_errors=True)


@pytest.mark.slow(reason="a backup for each step")
def test_snapshots_are_whole_in_any_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hypothesis.stateful import run_state_machine_as_test

    for number in range(3):
        target = tmp_path / f"disk-{number}"
        shutil.copytree(REPLICAS[number], target)
    monkeypatch.setenv("PYTEST_MACHINE", str(tmp_path))
    run_state_machine_as_test(Backups, settings=settings(max_examples=100, stateful_step_count=20, deadline=None))


def test_what_a_run_goes_on_from_stays_while_it_runs(place: Path, tmp_path: Path) -> None:
    disk = earlier(tmp_path / "earlier", 3)
    brokerless.backup(disk, place, name="first", segment_size=20_000)
    for each in place.rglob("*"):
        os.utime(each, (NOW / 1000 - 9 * 86_400, NOW / 1000 - 9 * 86_400))
    source = [Source.all_of(resolve(Location(str(DEMO))))]
    plan = plan_backup(source, Location(str(place)), BackupOptions(segment_size=20_000))
    forget(Location(f"{place}@first"), None, apply=True)
    for each in (place / ".brokerless" / "forgotten").iterdir():
        os.utime(each, (NOW / 1000, NOW / 1000))
    assert not prune(Location(str(place)), apply=True, now=NOW + DAY).objects
    run_plan(plan, ALONE)
    assert not brokerless.Backup(place).check("all").findings
    assert rows_of(place) == rows_of(DEMO)
    prune(Location(str(place)), apply=True, now=NOW + 3 * DAY)
    assert not brokerless.Backup(place).check("all").findings
    assert rows_of(place) == rows_of(DEMO)
