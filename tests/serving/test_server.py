from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient

import brokerless
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding, Kind
from brokerless.log.storage.files import LocalFile
from brokerless.serving.server import is_loopback, parse_address, shown_address
from tests.format.twin import write_batch, write_record
from tests.log.tiered import cases, golden
from tests.s3 import S3

DEMO = Path(__file__).parents[2] / "demo" / "data"


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9092", ("127.0.0.1", 9092)), ("[::1]:0", ("::1", 0)), ("kafka.example:1", ("kafka.example", 1))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert shown_address(*address) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not HOST:PORT"),
        (":9092", "is not HOST:PORT"),
        ("host:", "is not HOST:PORT"),
        ("host:x", "is not HOST:PORT"),
        ("host:-1", "is not HOST:PORT"),
        ("host", "'host' has no port; write host:9092"),
        ("[::1]", r"has no port; write \[::1\]:9092"),
        ("9093", "'9093' has no host; write 127.0.0.1:9093"),
        ("::1:9092", r"in brackets, as \[::1\]:9092"),
        ("host:65536", r"ports are 0 \(any free one\) to 65535"),
    ],
)
def test_wrong_addresses(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse_address(text)


def test_only_this_machine_may_read_unless_that_is_said() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    for host in ("0.0.0.0", "::", "10.0.0.1", "kafka.example"):
        assert not is_loopback(host)
    with pytest.raises(UsageError, match="insecure="), brokerless.serve(DEMO, listen="0.0.0.0:0"):
        pass
    with brokerless.serve(DEMO, listen="0.0.0.0:0", advertise="127.0.0.1:1234", insecure=True) as server:
        assert server.bootstrap_servers == "127.0.0.1:1234"


def test_an_address_that_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(UsageError, match="in use by another program; give another port, or any free one: listen="),
            brokerless.serve(DEMO, listen=f"127.0.0.1:{port}"),
        ):
            pass


def test_it_is_used_in_a_with_statement() -> None:
    server = brokerless.serve(DEMO)
    with pytest.raises(UsageError, match="with statement"):
        _ = server.bootstrap_servers
    threads = threading.active_count()
    with server:
        assert server.bootstrap_servers.startswith("127.0.0.1:")
    assert threading.active_count() == threads


def test_what_it_needs_to_listen_imports_no_kernels() -> None:
    """A process is ready before it decodes the cluster's metadata and offsets."""
    code = "import sys, brokerless; brokerless.serve(sys.argv[1]); print({'numba', 'rich'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code, str(DEMO)], capture_output=True, check=True, text=True)
    assert done.stdout == "set()\n"


def test_it_is_started_and_closed() -> None:
    server = brokerless.serve(DEMO)
    assert repr(server) == f"Server({DEMO}; not started)"
    assert server.start() is server
    assert repr(server) == f"Server({server.bootstrap_servers}: 5 topics, 7 partitions)"
    with pytest.raises(UsageError, match="started before"):
        server.start()
    server.close()
    server.close()
    brokerless.serve(DEMO).close()


def test_topics_are_selected_and_groups_go_on() -> None:
    with brokerless.serve(DEMO, topics=["ord*", "users"]) as server:
        consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "shipping"})
        assert set(consumer.list_topics(timeout=30).topics) == {"orders", "users"}
        (committed,) = consumer.committed([TopicPartition("orders", 2)], timeout=30)
        assert committed.offset == 500
        consumer.close()
    with pytest.raises(UsageError, match="there is no topic order"):
        brokerless.serve(DEMO, topics="order")


def test_damage_is_logged_unless_it_goes_elsewhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = write(tmp_path / "orders-0", range(5))
    log.write_bytes(log.read_bytes()[:-3])
    with brokerless.serve(tmp_path) as server:
        server.wait_for_survey()
    assert [(each.name, each.levelname) for each in caplog.records] == [("brokerless.serve", "WARNING")]
    assert str(log) in caplog.text


def test_commits_survive_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "offsets.jsonl"
    for expected in (500, 501, 502):
        with brokerless.serve(DEMO, offsets=path) as server:
            consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "shipping"})
            (committed,) = consumer.committed([TopicPartition("orders", 2)], timeout=30)
            assert committed.offset == expected
            consumer.commit(offsets=[TopicPartition("orders", 2, expected + 1)], asynchronous=False)
            consumer.close()
    with pytest.raises(UsageError, match="nothing is written there"), brokerless.serve(DEMO, offsets=DEMO / "x"):
        pass
    assert not (DEMO / "x").exists()


def test_a_commit_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "there" / "offsets.jsonl"
    path.parent.mkdir()
    findings: list[Finding] = []
    with brokerless.serve(DEMO, offsets=path, on_damage=findings.append) as server:
        server.wait_for_survey()
        findings.clear()
        consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": "shipping"})
        path.parent.rmdir()
        for _ in range(2):
            with pytest.raises(KafkaException) as raised:
                consumer.commit(offsets=[TopicPartition("orders", 2, 7)], asynchronous=False)
            assert raised.value.args[0].code() == KafkaError.KAFKA_STORAGE_ERROR
        (committed,) = consumer.committed([TopicPartition("orders", 2)], timeout=30)
        assert committed.offset == 500
        path.parent.mkdir()
        consumer.commit(offsets=[TopicPartition("orders", 2, 7)], asynchronous=False)
        assert '"topic": "orders", "partition": 2, "offset": 7' in path.read_text()
        consumer.close()
    (finding,) = findings
    assert (finding.kind, finding.file) == (Kind.OFFSETS_NOT_WRITTEN, str(path))
    assert "No such file or directory" in finding.message


@pytest.mark.parametrize("skip_damaged", [False, True])
def test_damage_is_reported_once_and_never_silent(tmp_path: Path, skip_damaged: bool) -> None:
    directory = tmp_path / "payments-0"
    shutil.copytree(DEMO / "payments-0", directory)
    log = sorted(directory.glob("*.log"))[0]
    table = brokerless.open(directory).batches(["position", "baseOffset", "lastOffset"]).read_all().to_pylist()
    damaged = table[len(table) // 2]
    data = bytearray(log.read_bytes())
    data[damaged["position"] + 70] ^= 1
    log.write_bytes(data)
    findings: list[Finding] = []
    with brokerless.serve(directory, skip_damaged=skip_damaged, on_damage=findings.append) as server:
        for _ in range(2):
            offsets, error = consumed(server.bootstrap_servers, "payments")
            lost = range(damaged["baseOffset"], damaged["lastOffset"] + 1)
            if skip_damaged:
                assert error is None
                assert max(offsets) > lost[-1]
                assert not set(lost) & set(offsets)
            else:
                assert error == 2
                assert max(offsets) < lost[0]
    kinds = [each.kind for each in findings if each.kind != Kind.TRANSACTION_OPEN]
    assert kinds == [Kind.CHECKSUM_MISMATCH, *([Kind.DAMAGE_SKIPPED] * skip_damaged)]
    assert findings[0].position == damaged["position"]


def write(directory: Path, offsets: Iterable[int], base: int = 0) -> Path:
    """Batches of one record each, in one segment."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base:020}.log"
    path.write_bytes(b"".join(write_batch(write_record(b"k", b"v"), base_offset=each, count=1) for each in offsets))
    return path


@pytest.mark.parametrize("skip_damaged", [False, True])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_segment_that_cannot_be_read_is_damage(tmp_path: Path, which: int, skip_damaged: bool) -> None:
    """Consumers get what can be read before it, and an error; or what comes after it, too."""
    logs = [write(tmp_path / "orders-0", range(base, base + 3), base) for base in (0, 3, 6)]
    logs[which].unlink()
    logs[which].symlink_to("nowhere")
    findings: list[Finding] = []
    with brokerless.serve(tmp_path, skip_damaged=skip_damaged, on_damage=findings.append) as server:
        server.wait_for_survey()
        assert [(each.kind, each.file) for each in findings] == [(Kind.UNREADABLE_FILE, str(logs[which]))]
        offsets, error = consumed(server.bootstrap_servers, "orders")
    lost = range(3 * which, 3 * which + 3)
    if skip_damaged:
        assert (offsets, error) == ([each for each in range(9) if each not in lost], None)
        assert [each.kind for each in findings[1:]] == [Kind.DAMAGE_SKIPPED] * (which < 2)
    else:
        assert (offsets, error) == (list(range(lost[0])), 2)
        assert len(findings) == 1


def test_bytes_that_a_disk_does_not_give_are_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = write(tmp_path / "orders-0", range(2000))
    bad = log.stat().st_size // 2 // 4096 * 4096
    read = LocalFile.read

    def failing(self: LocalFile, position: int, length: int) -> Any:
        if self.path == str(log) and position < bad + 512 and min(position + length, self.size) > bad:
            raise UnreadableError(self.path, "Input/output error")
        return read(self, position, length)

    monkeypatch.setattr(LocalFile, "read", failing)
    findings: list[Finding] = []
    with brokerless.serve(tmp_path, on_damage=findings.append) as server:
        offsets, error = consumed(server.bootstrap_servers, "orders")
    size = log.stat().st_size // 2000
    assert (offsets, error) == (list(range(bad // size)), 2)
    assert {each.kind for each in findings} == {Kind.UNREADABLE_FILE}


def test_of_a_partition_that_cannot_be_listed_clients_see_no_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "orders-0", range(3))
    (tmp_path / "payments-1").symlink_to("nowhere")
    findings: list[Finding] = []
    with brokerless.serve(tmp_path, on_damage=findings.append) as server:
        topics = AdminClient({"bootstrap.servers": server.bootstrap_servers}).list_topics(timeout=30).topics
        assert {number: each.leader for number, each in topics["payments"].partitions.items()} == {0: -1, 1: -1}
    assert [each.kind for each in findings] == [Kind.UNREADABLE_DIRECTORY]


def test_what_one_replica_lacks_another_one_has(tmp_path: Path) -> None:
    """Of replicas with the same epochs, each damaged elsewhere, consumers get all records."""
    logs = [write(tmp_path / name / "orders-0", range(100)) for name in ("a", "b")]
    size = logs[0].stat().st_size // 100
    for log, damaged in zip(logs, ((0, 10, 99), (20, 21)), strict=True):
        data = bytearray(log.read_bytes())
        for each in damaged:
            data[each * size + 65] ^= 1
        log.write_bytes(data)
    findings: list[Finding] = []
    with brokerless.serve([tmp_path / "a", tmp_path / "b"], on_damage=findings.append) as server:
        assert consumed(server.bootstrap_servers, "orders") == (list(range(100)), None)
    assert [(each.kind, each.file, each.offset) for each in findings] == [
        (Kind.CHECKSUM_MISMATCH, str(logs[0]), offset) for offset in (0, 10, 99)
    ]
    assert all(f"another replica has there is served: {tmp_path / 'b'}" in each.message for each in findings)


def test_consumers_come_to_the_end_where_damage_is_skipped(tmp_path: Path) -> None:
    log = write(tmp_path / "orders-0", range(5))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    with brokerless.serve(tmp_path, skip_damaged=True, on_damage=lambda _: None) as server:
        assert consumed(server.bootstrap_servers, "orders") == ([0, 1, 2, 3], None)
        assert consumed(server.bootstrap_servers, "orders", 5) == ([], None)


def test_a_cut_end_and_open_transactions_are_said_at_the_start(tmp_path: Path) -> None:
    log = write(tmp_path / "orders-0", range(5))
    log.write_bytes(log.read_bytes()[:-3])
    open_one = write_batch(
        write_record(b"k", b"v"), base_offset=0, count=1, producer_id=7, producer_epoch=0, attributes=0x10
    )
    (tmp_path / "payments-0").mkdir()
    (tmp_path / "payments-0" / f"{0:020}.log").write_bytes(open_one)
    findings: list[Finding] = []
    with brokerless.serve(tmp_path, on_damage=findings.append) as server:
        server.wait_for_survey()
    assert [(each.kind, each.offset) for each in findings] == [
        (Kind.TRUNCATED_BATCH, 4),
        (Kind.TRANSACTION_OPEN, 0),
    ]
    assert "read_committed stop there" in findings[1].message


def consumed(bootstrap: str, topic: str, start: int = 0) -> tuple[list[int], int | None]:
    """The offsets that a consumer gets, and the error at which it stops."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "any",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
        }
    )
    consumer.assign([TopicPartition(topic, 0, start)])
    offsets: list[int] = []
    try:
        while (message := consumer.poll(20)) is not None:
            error = message.error()
            if error is None:
                offsets.append(message.offset() or 0)
            elif error.code() != KafkaError._PARTITION_EOF:
                return offsets, error.code()
            else:
                return offsets, None
    finally:
        consumer.close()
    raise AssertionError("no answer")


@pytest.mark.xdist_group("s3")
def test_a_bucket_is_served_as_a_directory(s3: S3) -> None:
    url = s3.upload(DEMO, "served")
    with brokerless.serve(url) as remote, brokerless.serve(DEMO) as local:
        for topic in ("payments", "orders"):
            ours, theirs = (consumed(each.bootstrap_servers, topic) for each in (remote, local))
            assert ours == theirs
            assert len(ours[0]) > 100
        consumer = Consumer({"bootstrap.servers": remote.bootstrap_servers, "group.id": "shipping"})
        (committed,) = consumer.committed([TopicPartition("orders", 2)], timeout=30)
        assert committed.offset == 500
        consumer.close()


def test_local_and_remote_segments_are_served_as_one_log() -> None:
    pairs = {name: golden() / "keys" / f"{name}.pem" for name in ("key1", "key2")}
    case = next(each for each in cases() if each.set == "encrypted" and each.topic == "trimmed")
    with brokerless.serve(case.data, remote=[case.bucket], key_pairs=pairs) as server:
        offsets, error = consumed(server.bootstrap_servers, case.topic, case.log_start)
    assert error is None
    assert offsets[0] == case.log_start < case.local_start
    assert len(offsets) == case.expected["read_uncommitted"]["all"]["records"]


def test_remote_segments_without_their_key_pair_are_reported_at_the_start() -> None:
    found: list[Finding] = []
    with brokerless.serve(golden() / "encrypted" / "bucket", on_damage=found.append) as server:
        server.wait_for_survey()
        partitions = server.topics.partitions
    assert len(found) == len(partitions) > 1
    assert all("key pair key1, which was not given (key_pairs=" in each.message for each in found)
