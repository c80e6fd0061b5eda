"""The cluster's metadata and the small files beside it are changed, and brokers of 4.4.0 and 3.9.1 start on them:
whether each does, and which partitions it takes for stray or does not serve, is what the dry run predicted."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import brokerless
from brokerless.clusters.directory_state import load_directory_state
from brokerless.clusters.start.directories import plan_directories
from brokerless.clusters.start.job import plan_restart
from brokerless.clusters.start.results import DirectoryRestart
from brokerless.findings import remedy_of
from brokerless.internals.metadata.records import MetadataRecord, encode_record
from brokerless.log import names
from brokerless.log.directory import LogDirectory, resolve
from brokerless.log.storage.location import Location
from tests.internals.written import append_values
from tests.kafka import recorded_starts
from tests.kafka.broker import KafkaBroker
from tests.kafka.jars import NEWEST, OLD_FORMATS
from tests.kafka.live import some_records
from tests.kafka.producers import produce_confluent
from tests.kafka.recorded_starts import Start

pytestmark = pytest.mark.xdist_group("metadata_start")

KRAFT = "__cluster_metadata-0"
UNKNOWN_ID = "MAAAAAAAQkyAAAAAAAAAAQ"
VERSIONS = (NEWEST, OLD_FORMATS)
FORMATTED = f"formatted-{NEWEST}"
PARTITIONS = 9
Change = Callable[[Path, Path], object]
"""Of the two log directories of a broker; the first has the metadata and ``plain-1``."""


def append(*records: MetadataRecord) -> Change:
    """Adds records to the metadata's log, each in a batch."""
    return lambda first, _: append_values(first, *(encode_record(*each) for each in records))


def setting(name: str, value: str, resource: str = "plain", type_: int = 2) -> Change:
    data = {"resourceType": type_, "resourceName": resource, "name": name, "value": value}
    return append(("CONFIG_RECORD", 0, data))


def feature(name: str, level: int) -> Change:
    return append(("FEATURE_LEVEL_RECORD", 0, {"name": name, "featureLevel": level}))


def remove_metadata(first: Path, _: Path) -> None:
    for each in (first / KRAFT).glob("0*"):
        each.unlink()


def empty_metadata(first: Path, _: Path) -> None:
    for each in (first / KRAFT).glob("0*.log"):
        each.write_bytes(b"")
    for each in (first / KRAFT).glob("*.checkpoint"):
        if int(each.name[:20]):
            each.unlink()  # that at offset 0, of a new cluster, has no topics


def substitute(old: str, new: str, *, both: bool) -> Change:
    def change(first: Path, second: Path) -> None:
        for each in (first, second) if both else (second,):
            path = each / names.META_PROPERTIES
            text = path.read_text()
            changed = re.sub(old, new, text, flags=re.MULTILINE)
            assert changed != text
            path.write_text(changed)

    return change


def of_version_0(*, both: bool) -> Change:
    def change(first: Path, second: Path) -> None:
        substitute("version=1", "version=0", both=both)(first, second)
        substitute("node.id", "broker.id", both=both)(first, second)

    return change


def write(name: str, data: bytes, *, at: int = 0) -> Change:
    return lambda *directories: (directories[at] / name).write_bytes(data)


def swap_topics(first: Path, _: Path) -> None:
    other = next(first.glob("other-*"))
    (first / "plain-1").rename(first / "taken")
    other.rename(first / "plain-1")
    (first / "taken").rename(other)


def give_id_of_other(first: Path, _: Path) -> None:
    shutil.copy(next(first.glob("other-*")) / names.PARTITION_METADATA, first / "plain-1")


def snapshot_after_end(first: Path, _: Path) -> None:
    """The newest snapshot stays, and the log before it is cut within its first half."""
    newest = max((first / KRAFT).glob("*.checkpoint"))
    log = max((first / KRAFT).glob("0*.log"))
    rows = [row for batch in brokerless.open(log).batches() for row in batch.to_pylist()]
    assert int(newest.name[:20]) > rows[len(rows) // 2]["lastOffset"] + 1
    os.truncate(log, rows[len(rows) // 2]["position"] + 20)


def first_snapshot(data: Callable[[bytes], bytes]) -> Change:
    """The snapshot with which the directory was formatted is the only one, and has other bytes."""

    def change(first: Path, _: Path) -> None:
        for each in (first / KRAFT).glob("*.checkpoint"):
            if each.name.startswith(f"{0:020}-"):
                each.write_bytes(data(each.read_bytes()))
            else:
                each.unlink()

    return change


def make_properties_a_directory(_: Path, second: Path) -> None:
    (second / names.META_PROPERTIES).unlink()
    (second / names.META_PROPERTIES).mkdir()


def write_within(name: str, data: bytes) -> Change:
    """Writes a file of a partition of the second directory."""
    return lambda _, second: (min(second.glob("plain-*")) / name).write_bytes(data)


def empty_second(_: Path, second: Path) -> None:
    shutil.rmtree(second)
    second.mkdir()


def large_segment(first: Path, _: Path) -> None:
    os.truncate(next((first / "plain-1").glob("*.log")), 1 << 31)
    (first / names.CLEAN_SHUTDOWN).unlink()


BROKER: dict[str, Any] = {"brokerId": 1, "brokerEpoch": 1, "fenced": 0, "inControlledShutdown": 0, "logDirs": []}
PARTITION: dict[str, Any] = {
    "partitionId": 0, "topicId": UNKNOWN_ID, "replicas": [1], "isr": [1], "removingReplicas": [], "addingReplicas": [],
    "leader": 1, "leaderEpoch": 0, "partitionEpoch": 0, "directories": ["A" * 22],
}  # fmt: skip
PRODUCER_IDS: dict[str, Any] = {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": 50_000}
BEGIN: MetadataRecord = ("BEGIN_TRANSACTION_RECORD", 0, {"name": "any"})

CASES: dict[str, Change] = {
    "unchanged": lambda *_: None,
    # What the metadata's log is without
    "metadata-removed": remove_metadata,
    "metadata-emptied": empty_metadata,
    "snapshot-after-end": snapshot_after_end,
    "first-snapshot-emptied": first_snapshot(lambda _: b""),
    "first-snapshot-cut": first_snapshot(lambda data: data[:-20]),
    "first-snapshot-of-junk": first_snapshot(lambda _: b"garbage" * 20),
    # Records that are intact, and cannot be applied
    "registration-change": append(("BROKER_REGISTRATION_CHANGE_RECORD", 1, BROKER)),
    "fence": append(("FENCE_BROKER_RECORD", 0, {"id": 1, "epoch": 1})),
    "unfence-of-unknown": append(("UNFENCE_BROKER_RECORD", 0, {"id": 7, "epoch": 1})),
    "unregister-unknown": append(("UNREGISTER_BROKER_RECORD", 0, {"brokerId": 7, "brokerEpoch": 1})),
    "unregister-controller": append(("UNREGISTER_CONTROLLER_RECORD", 0, {"controllerId": 9})),
    "topic-twice": append(("TOPIC_RECORD", 0, {"name": "plain", "topicId": UNKNOWN_ID})),
    "topic-removed": append(("REMOVE_TOPIC_RECORD", 0, {"topicId": UNKNOWN_ID})),
    "partition-of-unknown": append(("PARTITION_RECORD", 1, PARTITION)),
    "partition-change": append(("PARTITION_CHANGE_RECORD", 0, {"partitionId": 0, "topicId": UNKNOWN_ID})),
    "producer-ids": append(("PRODUCER_IDS_RECORD", 0, PRODUCER_IDS)),
    "producer-ids-twice": append(*[("PRODUCER_IDS_RECORD", 0, PRODUCER_IDS)] * 2),
    "acl-removed": append(("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", 0, {"id": UNKNOWN_ID})),
    "credential-removed": append(("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", 0, {"name": "any", "mechanism": 1})),
    "token-removed": append(("REMOVE_DELEGATION_TOKEN_RECORD", 0, {"tokenId": "any"})),
    "end-of-nothing": append(("END_TRANSACTION_RECORD", 0, {})),
    "begin": append(("PRODUCER_IDS_RECORD", 0, PRODUCER_IDS), BEGIN),
    "begin-after-the-snapshot": append(BEGIN),
    "begin-twice": append(BEGIN, BEGIN),
    "record-unknown": lambda first, _: append_values(first, b"\1\x63\0"),
    "record-version-unknown": lambda first, _: append_values(first, b"\1\2\x09"),
    "metadata-version": feature("metadata.version", 99),
    "feature-unknown": feature("any.version", 9),
    "feature-level-unknown": feature("group.version", 9),
    # Settings
    "segment-bytes": setting("segment.bytes", "16384"),
    "segment-bytes-with-spaces": setting("segment.bytes", " 2097152 "),
    "compression-type": setting("compression.type", "none"),
    "retention-no-number": setting("retention.ms", "soon"),
    "throttled-replicas": setting("leader.replication.throttled.replicas", "any"),
    "gzip-level": setting("compression.gzip.level", "12"),
    "no-boolean": setting("preallocate", "yes"),
    "policy": setting("cleanup.policy", "gone"),
    "policy-empty": setting("cleanup.policy", ""),
    "policy-twice": setting("cleanup.policy", "delete,delete"),
    "setting-unknown": setting("any.setting", "any"),
    "setting-of-no-topic": setting("segment.bytes", "5", "gone"),
    "setting-of-all-brokers": setting("log.segment.bytes", "5", "", 4),
    "setting-of-the-broker": setting("log.retention.ms", "soon", "1", 4),
    # Small files, and names
    "version-0": of_version_0(both=True),
    "version-0-of-the-second": of_version_0(both=False),
    "second-without-meta-properties": lambda _, second: (second / names.META_PROPERTIES).unlink(),
    "second-with-empty-meta-properties": write(names.META_PROPERTIES, b"", at=1),
    "second-without-cluster-id": substitute("^cluster.id=.*\n", "", both=False),
    "second-of-version-2": substitute("^version=.*", "version=2", both=False),
    "second-with-directory": make_properties_a_directory,
    "second-of-malformed-escapes": write(names.META_PROPERTIES, b"garbage=\\u12", at=1),
    "second-emptied": empty_second,
    **{f"second-with-garbage-for-{name}": write(name, b"garbage", at=1) for name in names.OFFSET_CHECKPOINTS},
    "second-with-garbage-for-leader-epochs": write_within("leader-epoch-checkpoint", b"garbage"),
    "second-with-garbage-for-partition-metadata": write_within("partition.metadata", b"garbage"),
    "second-with-file-name": write_within("copy.log", b""),
    "first-with-garbage-for-recovery-points": write(names.RECOVERY_POINT_CHECKPOINT, b"garbage"),
    "first-with-garbage-for-leader-epochs": write("plain-1/leader-epoch-checkpoint", b"garbage"),
    "first-with-garbage-for-partition-metadata": write("plain-1/partition.metadata", b"garbage"),
    "first-without-cluster-id": lambda first, second: substitute("^cluster.id=.*\n", "", both=False)(second, first),
    "second-taken-out": lambda _, second: shutil.rmtree(second),
    "empty-quorum-state": write(f"{KRAFT}/quorum-state", b""),
    "empty-partition-metadata": write("plain-1/partition.metadata", b""),
    "empty-leader-epochs": write("plain-1/leader-epoch-checkpoint", b""),
    "cut-leader-epochs": write("plain-1/leader-epoch-checkpoint", b"0\n3\n0 0\n"),
    "empty-recovery-points": write("recovery-point-offset-checkpoint", b""),
    "foreign-directory": lambda first, _: (first / "streaming-output").mkdir(),
    "large-segment": large_segment,
    "topics-swapped": swap_topics,
    "id-of-other": give_id_of_other,
}
OFFLINE = (
    *("second-without-cluster-id", "second-of-version-2", "second-with-directory", "second-of-malformed-escapes"),
    *(f"second-with-garbage-for-{name}" for name in (*names.OFFSET_CHECKPOINTS, "leader-epochs", "partition-metadata")),
)
"""Directories that the broker leaves out, as it has another one."""
NEWEST_ONLY = (
    *("first-snapshot-emptied", "first-snapshot-cut", "first-snapshot-of-junk"),
    *("fence", "unfence-of-unknown", "unregister-unknown", "unregister-controller", "topic-removed", "producer-ids"),
    *("partition-of-unknown", "acl-removed", "credential-removed", "token-removed", "end-of-nothing", "begin"),
    *("record-unknown", "gzip-level", "no-boolean", "policy", "retention-no-number", "setting-unknown", "id-of-other"),
    *("empty-recovery-points", "empty-quorum-state", "empty-partition-metadata", "foreign-directory", "large-segment"),
)
"""Left out of the starts of the older version, which are as those of the newest; each costs a second."""


@dataclass
class Started:
    directories: list[DirectoryRestart]
    refused: list[str]
    """As the dry run predicts."""
    answer: str
    before: set[str]
    after: set[str]
    kinds: list[str] = field(default_factory=list[str])
    """Of partitions that are refused."""

    @property
    def offsets(self) -> dict[str, str]:
        return dict(each.rsplit("=", 1) for each in self.answer.split()[1:])  # type: ignore[misc]


def make_base(directory: Path, version: str) -> None:
    """The two log directories of a broker after a clean stop."""
    snapshots = {
        "metadata.log.max.snapshot.interval.ms": "500",
        "metadata.log.max.record.bytes.between.snapshots": "1",
        "metadata.max.idle.interval.ms": "500",
    }
    broker = KafkaBroker(directory.with_name("broker-of-base"), snapshots, version)
    paths = [directory / "first", directory / "second"]
    line = f"log.dirs={','.join(map(str, paths))}"
    broker.log_dir = paths[0]
    broker.properties.write_text(re.sub("log.dirs=.*", line, broker.properties.read_text()))
    with broker:
        broker.create_topic("plain", PARTITIONS)
        broker.create_topic("other", 4)
        for topic, partitions in (("plain", PARTITIONS), ("other", 4)):
            produce_confluent(broker, topic, some_records(1, 90, partitions=partitions, largest=100))


def prepare(base: Path, directory: Path, version: str, change: Change) -> tuple[Start, Started]:
    broker = KafkaBroker(directory, {}, version)
    stopped = sorted(base.iterdir(), key=lambda path: not (path / KRAFT).exists())
    paths = [Path(shutil.copytree(path, directory / path.name)) for path in stopped]
    for path in paths:
        (path / names.LOCK).unlink(missing_ok=True)
    change(*paths)
    paths = [path for path in paths if path.exists()]
    text = re.sub("log.dirs=.*", f"log.dirs={','.join(map(str, paths))}", broker.properties.read_text())
    broker.properties.write_text(text + "test.offsets.after.ms=100\n")
    logs = [_listed(path) for path in paths]
    planned = plan_directories(logs, version=version)
    refused = [str(finding) for each in planned for finding in each.refused]
    kinds: list[str] = []
    for log, of_directory in zip(logs, planned, strict=True):
        state = load_directory_state(log)
        for each in log.partitions:
            restart = plan_restart(each, state.of(each), clean=state.was_clean, directory=of_directory)
            refused += [restart.refused] if restart.refused and restart.ends is not False else []
            kinds += [restart.refused_by] if restart.refused_by else []
    before = {each.name for path in paths for each in path.iterdir()}
    return Start(broker, tuple(paths)), Started(planned, refused, "", before, set(), kinds)


def _listed(path: Path) -> LogDirectory:
    location = Location(str(path))
    return resolve(location) if any(path.iterdir()) else LogDirectory(location, "log-directory", ())


def cases_of(version: str) -> dict[str, Change]:
    return {name: each for name, each in CASES.items() if version == NEWEST or name not in NEWEST_ONLY}


def record_starts() -> None:
    for version in VERSIONS:

        def starts(base: Path, root: Path, version: str = version) -> dict[str, Start]:
            return {name: prepare(base, root / name, version, each)[0] for name, each in cases_of(version).items()}

        recorded_starts.record(f"metadata-{version}", lambda base, version=version: make_base(base, version), starts)
    recorded_starts.record_base(FORMATTED, start_older)


@pytest.fixture(scope="module", params=VERSIONS)
def started(
    request: pytest.FixtureRequest, kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Started]:
    """What happens to brokers of one version, of which those that are recorded are not started again."""
    version, root = request.param, tmp_path_factory.mktemp("metadata")
    name = f"metadata-{version}"
    base = recorded_starts.base(name, lambda directory: make_base(directory, version), root / "stopped")
    prepared = {case: prepare(base, root / case, version, change) for case, change in cases_of(version).items()}
    words = recorded_starts.words(name, {case: start for case, (start, _) in prepared.items()})
    found: dict[str, Started] = {}
    for case, (start, each) in prepared.items():
        each.answer, each.after = words[case].answer, set(words[case].after)
        found[case] = each
        shutil.rmtree(start.broker.directory)
    return found


def test_a_broker_ends_where_the_dry_run_predicts_it_and_starts_elsewhere(started: dict[str, Started]) -> None:
    wrong = {
        name: (each.refused, each.answer)
        for name, each in started.items()
        if bool(each.refused) == each.answer.startswith("started")
    }
    assert not wrong
    assert sum(bool(each.refused) for each in started.values()) > 12


def test_without_the_metadata_of_the_only_voter_all_partitions_become_stray(started: dict[str, Started]) -> None:
    for name in ("metadata-removed", "metadata-emptied"):
        each = started[name]
        stray = {Path(path).name for planned in each.directories for path in planned.stray}
        renamed = {path.rpartition(".")[0] for path in each.after - each.before if path.endswith("-stray")}
        assert stray == renamed, name
        assert len(stray) == PARTITIONS + 4
        assert all(planned.restarts_cluster and not planned.is_harmless for planned in each.directories)


def test_one_wrong_topic_id_stops_other_partitions_too(started: dict[str, Started]) -> None:
    for name in {"topics-swapped", "id-of-other"} & started.keys():
        each = started[name]
        unserved = {Path(path).name for planned in each.directories for path in planned.unserved}
        warnings = [finding.kind for planned in each.directories for finding in planned.warnings]
        nobody = {partition for partition, offsets in each.offsets.items() if offsets == "none"}
        assert warnings == ["topics-not-applied"] * len(unserved)
        assert nobody > unserved
    assert "none" not in started["unchanged"].offsets.values()


def test_a_directory_of_which_a_file_cannot_be_read_is_offline(started: dict[str, Started]) -> None:
    for name in OFFLINE:
        first, second = started[name].directories
        assert (first.offline, first.refused, second.refused) == (None, (), ())
        assert second.offline is not None
        assert not second.is_harmless
        unserved = {Path(path).name for path in second.unserved}
        nobody = {partition for partition, offsets in started[name].offsets.items() if offsets == "none"}
        assert unserved == nobody
        assert len(unserved) >= PARTITIONS // 2


def test_partitions_of_a_disk_that_was_taken_out_begin_empty(started: dict[str, Started]) -> None:
    each = started["second-taken-out"]
    (planned,) = each.directories
    created = {f"{topic}-{number}" for topic, number in planned.created}
    assert created == each.after - each.before
    assert {each.offsets[name] for name in created} <= {"0..0", "none"}  # which of both is a race
    assert len(created) >= PARTITIONS // 2
    assert not planned.is_harmless


def test_each_cause_has_a_remedy(started: dict[str, Started]) -> None:
    for each in started.values():
        for planned in each.directories:
            causes = *planned.refused, *planned.stray.values(), *planned.unserved.values(), *planned.warnings
            assert all(remedy_of(cause) for cause in causes)
        assert all(remedy_of(kind) for kind in each.kinds)


def test_what_another_version_refuses_is_a_warning(started: dict[str, Started]) -> None:
    (planned, _) = started["segment-bytes"].directories
    if planned.version == NEWEST:
        assert "Kafka 4.4.0 ends at its start: segment.bytes of topic plain" in str(planned.refused[0])
    else:
        (warning,) = planned.warnings
        assert "segment.bytes of topic plain has a value that ends Kafka 4.1 to 4.4 at its start" in warning.message


def start_older(directory: Path) -> None:
    """Fill ``directory`` with a log directory that the newest Kafka formatted, and what the older one says of it."""
    newest = KafkaBroker(directory.with_name("newest"))
    older = KafkaBroker(directory.with_name("older"), version=OLD_FORMATS)
    newest.format()
    newest.copy_log_dir(directory / "data")
    newest.copy_log_dir(older.log_dir)
    with pytest.raises(RuntimeError):
        older.start()
    (directory / "output").write_text("\n".join(older.warnings()))


def test_a_directory_that_the_newest_kafka_formatted_is_none_of_an_older_one(kafka_jars: Path, tmp_path: Path) -> None:
    base = recorded_starts.base(FORMATTED, start_older, tmp_path / "formatted")
    directory = resolve(Location(str(base / "data")))
    (planned,) = plan_directories([directory])
    assert not planned.refused
    (planned,) = plan_directories([directory], version=OLD_FORMATS)
    assert [each.kind for each in planned.refused] == ["metadata-version-unknown"]
    # Its controller and its loader of the metadata both refuse the version: the process ends with who is first.
    said = "No MetadataVersion with feature level 33|metadata.version', featureLevel=33"
    assert re.search(said, (base / "output").read_text())
