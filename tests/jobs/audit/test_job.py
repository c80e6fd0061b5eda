"""What real brokers left has no errors; and each kind of finding is made from a broker's files by a small change."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from tests.described import undescribed
from tests.golden import broker_data, cases
from tests.lock_holder import held_by_another
from tests.log import whole_batches

import brokerless
from brokerless.clusters.directory_state import load_directory_state
from brokerless.findings import Finding
from brokerless.format import layouts
from brokerless.format.read.batch_headers import compute_checksums, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.jobs.audit import job
from brokerless.jobs.audit.job import PartitionAudit, audit_directory, audit_partition
from brokerless.jobs.verify.partition import verify_partition
from brokerless.log import names
from brokerless.log.checkpoint.commit_journal import GrowingPartition, Journal, write_journal
from brokerless.log.checkpoint.offset_checkpoints import load_offset_checkpoint, offset_checkpoint
from brokerless.log.directory import resolve
from brokerless.log.producer.snapshot import producer_snapshot
from brokerless.log.storage.location import Location

NOW = 1_795_300_000_000
"""ms: after all golden files were written."""


def audit(path: object) -> tuple[dict[str, PartitionAudit], list[Finding]]:
    """All audits of a path, by the partition's name, and all findings."""
    directory = resolve(Location(str(path)))
    notes = load_directory_state(directory)
    audits = [audit_partition(each, notes.of(each), NOW, was_clean=notes.was_clean) for each in directory.partitions]
    findings = [finding for each in audits for finding in each.findings]
    findings += audit_directory(directory, notes, audits)
    return {f"{each.topic}-{each.partition}": each for each in audits}, findings


NORMAL = {
    "clean": {"transaction-open", "transaction-ongoing", "group-lag", "group-offset-beyond-end"},
    "old-formats": {"legacy-format", "no-timestamps", "leader-epoch-checkpoint-missing", "group-lag"},
    "unclean": {"high-watermark-before-start", "transaction-open", "transaction-ongoing", "unclean-stop", "zero-tail"},
}
KILLED = {"truncated-batch", "index-missing", "recovery-cuts"}
"""What is missing of the killed broker's files."""


@pytest.mark.parametrize("broker", NORMAL)
def test_what_brokers_left_has_no_errors(broker: str) -> None:
    _, findings = audit(broker_data(broker))
    assert {each.kind for each in findings if each.severity == "info"} == NORMAL[broker]
    assert {each.kind for each in findings if each.severity != "info"} == (KILLED if broker == "unclean" else set())
    assert not [each for each in findings if each.severity == "error"]


def test_what_no_broker_loads_is_an_error_of_a_copy_without_meta_properties_too(tmp_path: Path) -> None:
    copy = tmp_path / "orders-0"
    shutil.copytree(Path("demo/data/orders-0"), copy)
    (copy / "backup.log").touch()
    _, findings = audit(tmp_path)
    (found,) = (each for each in findings if each.kind == "file-name")
    assert (found.severity, found.file) == ("error", str(copy / "backup.log"))


def test_a_partition_is_summed_up_as_its_tables_say() -> None:
    audits, _ = audit(broker_data("clean"))
    for name, each in audits.items():
        log = brokerless.open(each.path)
        rows = log.segments().to_pylist()
        assert each.summary.records == sum(row["records"] for row in rows), name
        assert each.summary.batches == sum(row["batches"] for row in rows)
        assert each.summary.size == sum(row["sizeInBytes"] for row in rows)
        assert each.end_offset == log.partitions[0].end_offset
        states = log.transactions()["state"].to_pylist()
        assert len(each.open) == states.count("open")
        assert each.committed + each.aborted + each.transactions_without_data == len(states) - len(each.open)
    assert audits["txn-0"].aborted > 10
    assert audits["head-deleted-0"].start_offset == 105
    formats, _ = audit(broker_data("old-formats"))
    assert formats["v0-none-0"].batches_by_magic.keys() == {0}
    assert formats["upgraded-0"].batches_by_magic.keys() == {0, 1, 2}


@dataclass
class Copy:
    """A copy of one partition of the clean broker, in a log directory of its own with the broker's notes on it."""

    root: Path
    name: str

    @property
    def directory(self) -> Path:
        return self.root / self.name

    def path(self, name: str) -> Path:
        return self.directory / name

    def logs(self) -> list[Path]:
        return sorted(self.directory.glob("*.log"))

    def note(self, file: str, offset: int) -> None:
        topic, _, partition = self.name.rpartition("-")
        (self.root / file).write_bytes(offset_checkpoint({(topic, int(partition)): offset}))

    def batch(self, at: int, *, log: int = 0, keep_checksum: bool = False, **fields: int) -> None:
        """Sets header fields of a batch, by its number in a log file."""
        path = self.logs()[log]
        data = np.frombuffer(path.read_bytes(), np.uint8).copy()
        position = int(scan_batches(data).positions[at])
        header = data[position : position + layouts.BATCH_V2_SIZE].view(layouts.BATCH_V2)
        for name, value in fields.items():
            header[name] = value
        if not keep_checksum:
            header["crc"] = compute_checksums(data, read_headers(data, np.array([position])))[0]
        path.write_bytes(data)

    def patch(self, at: int, before: bytes, after: bytes, *, log: int = 0) -> None:
        """Replaces bytes of a batch."""
        path = self.logs()[log]
        data = path.read_bytes()
        positions = [*scan_batches(np.frombuffer(data, np.uint8)).positions.tolist(), len(data)]
        start, end = positions[at], positions[at + 1]
        assert data[start:end].count(before) == 1
        path.write_bytes(data[:start] + data[start:end].replace(before, after) + data[end:])
        self.batch(at, log=log)

    def segment(self, number: int, target: int | None) -> None:
        """Takes a segment away, or gives it another base offset."""
        base = self.logs()[number].stem
        for suffix in ("log", "index", "timeindex", "txnindex", "snapshot"):
            path = self.path(f"{base}.{suffix}")
            if path.exists() and target is None:
                path.unlink()
            elif path.exists():
                path.rename(self.path(f"{target:020}.{suffix}"))


def copy_of(name: str, root: Path) -> Copy:
    source = broker_data("clean")
    shutil.copytree(source / name, root / name, copy_function=shutil.copyfile)
    (root / name).chmod(0o755)
    topic, _, partition = name.rpartition("-")
    for path in source.iterdir():
        if path.name.endswith("-offset-checkpoint"):
            offsets = load_offset_checkpoint(Location(str(path))).offsets
            own = {place: offset for place, offset in offsets.items() if place == (topic, int(partition))}
            (root / path.name).write_bytes(offset_checkpoint(own))
        elif path.is_file():
            shutil.copyfile(path, root / path.name)
    return Copy(root, name)


HOUR = 60 * 60 * 1000


def unclean(copy: Copy) -> None:
    (copy.root / names.CLEAN_SHUTDOWN).unlink()


def seconds(copy: Copy) -> None:
    copy.batch(3, max_timestamp=1_600_000_000, base_timestamp=1_600_000_000)


def hanging(copy: Copy) -> None:
    """A batch gets another producer, for which no marker comes; a later marker is half an hour later."""
    copy.batch(2, log=-1, producer_id=4242)
    time = int(np.frombuffer(copy.logs()[-1].read_bytes(), np.uint8)[888 + 35 : 888 + 43].view(">i8")[0])
    copy.batch(6, log=-1, max_timestamp=time + HOUR // 2)


def snapshot(copy: Copy) -> None:
    path = sorted(copy.directory.glob("*.snapshot"))[-1]
    data = np.frombuffer(path.read_bytes(), np.uint8)[layouts.PRODUCER_SNAPSHOT_HEADER.itemsize :]
    entries = data.view(layouts.PRODUCER_SNAPSHOT_ENTRY).copy()
    entries[0]["last_sequence"] += 1
    path.write_bytes(producer_snapshot(entries))


def snapshot_from_behind(copy: Copy) -> None:
    sorted(copy.directory.glob("*.snapshot"))[-1].rename(copy.path(f"{9999:020}.snapshot"))


def epochs(*lines: str) -> Callable[[Copy], object]:
    text = "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines))
    return lambda copy: copy.path("leader-epoch-checkpoint").write_text(text)


def note(file: str, offset: int) -> Callable[[Copy], object]:
    return lambda copy: copy.note(file, offset)


def another_topic(copy: Copy) -> None:
    shutil.copytree(copy.directory, copy.root / "segments-1")
    (copy.root / "segments-1" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")


def renamed(state: str, unique_id: str = "9f0c6ae1b2f64e5d8a7b3c1d2e4f5a6b") -> Callable[[Copy], object]:
    name = f"empty-0.{unique_id}-{state}"
    return lambda copy: copy.directory.rename(copy.root / name)


def no_transaction_index(copy: Copy) -> None:
    for path in copy.directory.glob("*.txnindex"):
        path.unlink()


def cut_off(copy: Copy) -> None:
    append(copy.logs()[-1], copy.logs()[-1].read_bytes()[:99])


def cut_within(copy: Copy) -> None:
    log = copy.logs()[1]
    log.write_bytes(log.read_bytes()[:-9])


def two_at_the_end_emptied(copy: Copy) -> None:
    for path in copy.logs()[-2:]:
        path.write_bytes(b"")


def write(path: Path) -> None:
    path.write_text("version=7\n")


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)


CHANGES: list[tuple[str, str, str, Callable[[Copy], object]]] = [
    # kind, severity, partition, change
    ("missing-segment", "error", "segments-0", lambda copy: copy.segment(1, None)),
    ("missing-segment", "error", "segments-0", lambda copy: copy.logs()[0].write_bytes(b"")),
    ("offset-gap", "warning", "segments-0", two_at_the_end_emptied),
    ("offset-gap", "warning", "segments-0", cut_within),
    ("segment-overlap", "error", "segments-0", lambda copy: copy.segment(2, 340)),
    ("offset-overlap", "warning", "segments-0", lambda copy: copy.batch(2, base_offset=3, keep_checksum=True)),
    ("leader-epoch-order", "warning", "epochs-0", lambda copy: copy.batch(2, partition_leader_epoch=1)),
    ("leader-epoch-mismatch", "warning", "epochs-0", epochs("0 0", "2 9")),
    ("leader-epoch-beyond-end", "warning", "epochs-0", epochs("0 0", "2 5", "3 13")),
    ("leader-epoch-checkpoint-missing", "info", "epochs-0", lambda copy: copy.path("leader-epoch-checkpoint").unlink()),
    ("checkpoint-corrupt", "error", "epochs-0", epochs("0 0", "2 a")),
    ("checkpoint-not-sorted", "warning", "epochs-0", epochs("2 5", "0 0")),
    ("sequence-gap", "warning", "segments-0", lambda copy: copy.batch(2, base_sequence=65)),
    ("sequence-repeated", "warning", "segments-0", lambda copy: copy.batch(2, base_sequence=30)),
    ("producer-epoch-order", "warning", "segments-0", lambda copy: copy.batch(0, producer_epoch=1)),
    ("outside-of-transaction", "error", "txn-0", lambda copy: copy.batch(4, log=-2, attributes=0)),
    ("marker-broken", "error", "txn-0", lambda copy: copy.patch(6, b"\x08\0\0\0\x01", b"\x08\0\0\0\x09", log=-1)),
    ("transaction-hanging", "warning", "txn-0", hanging),
    ("transaction-index-mismatch", "error", "txn-0", no_transaction_index),
    ("producer-snapshot-mismatch", "warning", "segments-0", snapshot),
    ("producer-snapshot-beyond-end", "warning", "segments-0", snapshot_from_behind),
    ("producer-snapshot-corrupt", "error", "segments-0", lambda copy: write(copy.path(f"{700:020}.snapshot"))),
    ("timestamp-unit", "warning", "segments-0", seconds),
    ("timestamp-future", "warning", "segments-0", lambda copy: copy.batch(3, max_timestamp=NOW + 2 * HOUR)),
    ("zero-tail", "error", "segments-0", lambda copy: append(copy.logs()[-1], bytes(500))),
    ("zero-tail", "info", "segments-0", lambda copy: (unclean(copy), append(copy.logs()[-1], bytes(500)))),
    ("zero-tail", "error", "segments-0", lambda copy: append(copy.logs()[0], bytes(500))),
    ("trailing-zeros", "info", "segments-0", lambda copy: append(copy.logs()[0], bytes(5))),
    ("truncated-batch", "warning", "segments-0", cut_off),
    ("truncated-batch", "error", "segments-0", cut_within),
    ("checksum-mismatch", "error", "segments-0", lambda copy: copy.batch(1, keep_checksum=True, crc=1)),
    ("batch-size-invalid", "error", "segments-0", lambda copy: copy.batch(1, keep_checksum=True, size=3)),
    ("batches-resume", "info", "segments-0", lambda copy: copy.batch(1, keep_checksum=True, size=3)),
    ("record-count-mismatch", "error", "segments-0", lambda copy: copy.batch(1, count=3)),
    ("no-batches", "error", "segments-0", lambda copy: copy.logs()[0].write_bytes(b"no log of Kafka's at all")),
    ("index-missing", "warning", "segments-0", lambda copy: copy.path(f"{169:020}.index").unlink()),
    ("index-corrupt", "error", "segments-0", lambda copy: append(copy.path(f"{169:020}.index"), b"?")),
    ("index-not-trimmed", "warning", "segments-0", lambda copy: append(copy.path(f"{169:020}.index"), bytes(80))),
    ("orphan-index", "warning", "segments-0", lambda copy: copy.path(f"{999:020}.index").write_bytes(b"")),
    ("leftover-file", "info", "segments-0", lambda copy: copy.path(f"{999:020}.log.deleted").write_bytes(b"")),
    ("swap-file", "info", "segments-0", lambda copy: copy.path(f"{999:020}.log.swap").write_bytes(b"")),
    ("foreign-file", "info", "segments-0", lambda copy: copy.path("notes.txt").write_bytes(b"")),
    ("directory-name", "error", "segments-0", lambda copy: (copy.root / "lost+found").mkdir()),
    ("partition-metadata-corrupt", "error", "segments-0", lambda copy: copy.path("partition.metadata").write_text("?")),
    ("topic-id-mismatch", "error", "segments-0", another_topic),
    ("recovery-point-beyond-end", "error", "segments-0", note(names.RECOVERY_POINT_CHECKPOINT, 701)),
    ("high-watermark-beyond-end", "error", "segments-0", note(names.HIGH_WATERMARK_CHECKPOINT, 701)),
    ("log-start-beyond-end", "error", "segments-0", note(names.LOG_START_OFFSET_CHECKPOINT, 701)),
    ("cleaner-checkpoint-beyond-end", "warning", "segments-0", note(names.CLEANER_CHECKPOINT, 701)),
    ("log-start-before-segments", "info", "retention-0", note(names.LOG_START_OFFSET_CHECKPOINT, 5)),
    ("high-watermark-before-start", "info", "retention-0", note(names.HIGH_WATERMARK_CHECKPOINT, 5)),
    ("meta-properties-missing", "error", "empty-0", lambda copy: (copy.root / "meta.properties").unlink()),
    ("meta-properties-corrupt", "error", "empty-0", lambda copy: write(copy.root / "meta.properties")),
    ("unclean-stop", "info", "empty-0", lambda copy: (copy.root / ".kafka_cleanshutdown").unlink()),
    ("partition-missing", "warning", "empty-0", lambda copy: copy.directory.rename(copy.root / "other-0")),
    ("stray-directory", "warning", "empty-0", renamed("stray")),
    ("deleted-directory", "warning", "empty-0", renamed("delete")),
    ("unfinished-directory", "info", "empty-0", renamed("delete", "9f0c6ae1b2f64e5d8a7b3c1d" + names.UNFINISHED)),
    ("future-directory", "info", "empty-0", renamed("future")),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "severity", "name", "change"),
    CHANGES,
    ids=[f"{kind}-{severity}-{n}" for n, (kind, severity, *_) in enumerate(CHANGES)],
)
def test_a_change_is_found(
    kind: str, severity: str, name: str, change: Callable[[Copy], object], tmp_path: Path
) -> None:
    copy = copy_of(name, tmp_path)
    _, before = audit(tmp_path)
    assert (severity, kind) not in {(each.severity, each.kind) for each in before}
    change(copy)
    _, findings = audit(tmp_path)
    found = [each for each in findings if (each.severity, each.kind) == (severity, kind)]
    assert found, findings
    assert all(each.file.startswith(str(tmp_path)) for each in found)
    assert undescribed(findings) == []


def test_a_running_broker_is_known_by_its_lock(tmp_path: Path) -> None:
    copy_of("empty-0", tmp_path)
    with held_by_another(tmp_path):
        running = {each.kind for each in audit(tmp_path)[1]}
    assert running - {each.kind for each in audit(tmp_path)[1]} == {"broker-running"}


def test_what_compaction_took_is_no_gap() -> None:
    audits, _ = audit(broker_data("clean") / "compacted-none-0")
    (compacted,) = audits.values()
    assert compacted.summary.records < 3000
    assert not compacted.findings


def test_findings_of_one_kind_do_not_fill_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    copy = copy_of("segments-0", tmp_path)
    for at in range(5):
        copy.batch(at, keep_checksum=True, crc=1)
    monkeypatch.setattr(job, "MOST_OF_A_KIND", 3)
    audits, _ = audit(tmp_path)
    found = audits["segments-0"]
    assert [each.kind for each in found.findings].count("checksum-mismatch") == 3
    assert found.left_out["checksum-mismatch"] == 2


def test_a_topic_that_was_deleted_and_made_again_had_another_id(tmp_path: Path) -> None:
    copy = copy_of("segments-0", tmp_path)
    another_topic(copy)
    (tmp_path / "segments-1").rename(tmp_path / "segments-1.9f0c6ae1b2f64e5d8a7b3c1d2e4f5a6b-delete")
    directory = resolve(Location(str(tmp_path)), include=("delete",))
    audits = [audit_partition(each, {}, NOW) for each in directory.partitions]
    assert len(audits) == 2
    assert "topic-id-mismatch" not in {
        each.kind for each in audit_directory(directory, load_directory_state(directory), audits)
    }


def test_a_task_and_its_result_can_go_to_another_process() -> None:
    directory = resolve(Location(str(broker_data("clean"))))
    notes = load_directory_state(directory)
    tasks = [(each, notes.of(each), NOW) for each in directory.partitions[:6]]
    results = [audit_partition(*task) for task in tasks]
    assert pickle.loads(pickle.dumps(tasks)) == tasks
    assert pickle.loads(pickle.dumps(results)) == results


def test_a_broken_snapshot_of_the_metadata_is_found(tmp_path: Path) -> None:
    shutil.copytree(broker_data("clean") / "__cluster_metadata-0", tmp_path / "__cluster_metadata-0")
    whole = cases("specials")
    (snapshot,) = [log for each in whole for log in each.logs if log.suffix == ".checkpoint"][:1]
    data = bytearray(snapshot.read_bytes())
    data[-1] ^= 1
    broken = tmp_path / "__cluster_metadata-0" / f"{5:020}-{1:010}.checkpoint"
    broken.write_bytes(data)
    assert [(each.kind, each.file) for each in audit(tmp_path)[1] if each.severity == "error"] == [
        ("checksum-mismatch", str(broken))
    ]


@pytest.mark.slow(reason="all damaged files")
def test_whatever_verify_finds_is_found_in_damaged_files() -> None:
    for case in cases("damaged", "framing", "specials", "articles"):
        (partition,) = resolve(Location(str(case.path))).partitions
        found = audit_partition(partition, {}, NOW).findings
        wanted = [each for each in verify_partition(partition) if each.severity == "error"]
        for each in wanted:
            assert each in found or (each.kind == "zero-tail" and replace(each, severity="info") in found), case
        assert undescribed(found) == [], case


@pytest.mark.parametrize(
    ("topic", "kind"), [("__consumer_offsets", "transaction-hanging"), ("orders", "transaction-open")]
)
def test_brokers_stamp_all_batches_of_the_offsets_topic(topic: str, kind: str, tmp_path: Path) -> None:
    """KAFKA-14055: other groups' commits, without a marker among them, tell how long a transaction is open."""
    directory = tmp_path / f"{topic}-7"
    directory.mkdir()
    bits = layouts.TRANSACTIONAL_BIT
    first = whole_batches.batch(0, timestamp=1_700_000_000_000, producer=(4242, 3, 0), attributes=bits)
    others = [whole_batches.batch(1 + at, timestamp=1_700_000_000_000 + at * 36_000) for at in range(300)]
    (directory / f"{0:020}.log").write_bytes(whole_batches.batches(first, *others).tobytes())
    (audit,) = brokerless.open(tmp_path).audit().partitions
    found = [each for each in audit.findings if each.kind.startswith("transaction-")]
    assert [(each.kind, each.offset) for each in found] == [(kind, 0)]


def test_a_log_that_goes_on_under_a_commit_that_was_cut_short_has_lost_nothing(tmp_path: Path) -> None:
    source = broker_data("clean")
    for name in ("segments-0", names.RECOVERY_POINT_CHECKPOINT, names.HIGH_WATERMARK_CHECKPOINT):
        (shutil.copytree if (source / name).is_dir() else shutil.copyfile)(source / name, tmp_path / name)
    last = max(int(log.stem) for log in (tmp_path / "segments-0").glob("*.log"))
    write_journal(tmp_path, Journal.begun().grow(GrowingPartition("segments", 0, last, last, -1)))
    (audit,) = brokerless.open(tmp_path).audit().partitions
    assert audit.missing_offsets == 0
    assert [each.kind for each in audit.findings if each.severity != "info"] == ["uncommitted"]
