from __future__ import annotations

import shutil
import socket
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

import brokerless
from brokerless.errors import UsageError
from brokerless.findings import Finding, Kind
from brokerless.serving.server import is_loopback, parse_address, shown_address

DEMO = Path(__file__).parents[2] / "demo" / "data"


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:9092", ("127.0.0.1", 9092)), ("[::1]:0", ("::1", 0)), ("kafka.example:1", ("kafka.example", 1))],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert shown_address(*address) == text


@pytest.mark.parametrize("text", ["", "host", ":9092", "host:", "host:x", "host:65536", "host:-1"])
def test_wrong_addresses(text: str) -> None:
    with pytest.raises(UsageError, match="is not HOST:PORT"):
        parse_address(text)


def test_only_this_machine_may_read_unless_that_is_said() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert is_loopback("localhost")
    for host in ("0.0.0.0", "::", "10.0.0.1", "kafka.example"):
        assert not is_loopback(host)
    with pytest.raises(UsageError, match="--insecure"), brokerless.serve(DEMO, listen="0.0.0.0:0"):
        pass
    with brokerless.serve(DEMO, listen="0.0.0.0:0", advertise="127.0.0.1:1234", insecure=True) as server:
        assert server.bootstrap_servers == "127.0.0.1:1234"


def test_an_address_that_is_taken_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(UsageError, match="cannot listen on 127"),
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
    kinds = [each.kind for each in findings]
    assert kinds == [Kind.CHECKSUM_MISMATCH, *([Kind.DAMAGE_SKIPPED] * skip_damaged)]
    assert findings[0].position == damaged["position"]


def consumed(bootstrap: str, topic: str) -> tuple[list[int], int | None]:
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
    consumer.assign([TopicPartition(topic, 0, 0)])
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
