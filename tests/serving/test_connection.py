from __future__ import annotations

import random
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

import brokerless
from brokerless.format.messages.reader import decode
from brokerless.format.messages.writer import encode
from brokerless.serving.connection import LARGEST_FIRST, LARGEST_REQUEST
from brokerless.serving.protocol.tables import apis
from brokerless.serving.source import batch_finder
from tests.require import require_ipv6
from tests.serving.differential import NAMES, filled

DEMO = Path(__file__).parents[2] / "demo" / "data"


@pytest.fixture(scope="module")
def address() -> Iterator[tuple[str, int]]:
    with brokerless.serve(DEMO) as server:
        host, port = server.bootstrap_servers.split(":")
        yield host, int(port)


def framed(name: str, version: int, body: dict[str, object]) -> bytes:
    api = NAMES[name]
    head = struct.pack(">hhih", api.key, version, 7, 3) + b"any"
    head += b"\0" if version in api.request.flexible else b""
    data = head + encode(api.request, version, filled(api.request.fields, version, body))
    return len(data).to_bytes(4, "big") + data


METADATA = framed("Metadata", 8, {"topics": None})


def received(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def answer(connection: socket.socket) -> bytes:
    return received(connection, int.from_bytes(received(connection, 4), "big"))


def test_requests_are_answered_in_their_order(address: tuple[str, int]) -> None:
    with socket.create_connection(address, 10) as connection:
        topics = [{"topic": "users", "partitions": [{"partition": 0, "fetchOffset": 655, "partitionMaxBytes": 100}]}]
        limits = {"maxWaitMs": 200, "minBytes": 1, "maxBytes": 100, "replicaId": -1}
        wait = framed("Fetch", 4, {**limits, "topics": topics})
        connection.sendall(wait + METADATA)
        first, second = answer(connection), answer(connection)
        found, _ = decode(apis()[1].response, 4, first, 4)
        assert found["responses"][0]["partitions"][0]["errorCode"] == 0
        found, _ = decode(apis()[3].response, 8, second, 4)
        assert len(found["topics"]) == 5


def test_a_version_that_is_not_known_is_answered_with_those_that_are(address: tuple[str, int]) -> None:
    with socket.create_connection(address, 10) as connection:
        connection.sendall(struct.pack(">ihhih", 10, 18, 99, 7, -1))
        found, _ = decode(apis()[18].response, 0, answer(connection), 4)
        assert found["errorCode"] == 35
        assert found["apiKeys"] == [{"apiKey": 18, "minVersion": 0, "maxVersion": 5}]
        connection.sendall(METADATA)
        answer(connection)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">i", 2 << 30 - 1),
        struct.pack(">i", LARGEST_REQUEST + 1),
        struct.pack(">i", -5),
        struct.pack(">ihhih", 10, 3, 99, 7, -1),
        struct.pack(">ihhih", 10, 999, 0, 7, -1),
        b"GET / HTTP/1.1\r\n\r\n",
        struct.pack(">ihhihi", 14, 3, 1, 7, -1, (1 << 31) - 1),
        struct.pack(">i", 0),
    ],
)
def test_what_is_no_request_ends_the_connection(address: tuple[str, int], data: bytes) -> None:
    with socket.create_connection(address, 10) as connection:
        connection.sendall(data)
        with pytest.raises((EOFError, ConnectionError)):
            answer(connection)
    with socket.create_connection(address, 10) as connection:
        connection.sendall(METADATA)
        answer(connection)


def test_half_requests_keep_nobody_waiting(address: tuple[str, int]) -> None:
    held = [socket.create_connection(address, 10) for _ in range(50)]
    for each in held:
        each.sendall(struct.pack(">i", LARGEST_FIRST) + bytes(1000))
    with socket.create_connection(address, 10) as connection:
        connection.sendall(METADATA)
        answer(connection)
    for each in held:
        each.close()


def test_changed_requests_do_no_harm(address: tuple[str, int], capfd: pytest.CaptureFixture[str]) -> None:
    """``python -m tests.serving.mutated`` sends any number."""
    from tests.serving.mutated import send_mutated

    send_mutated(address, 400, random.Random(1))
    with socket.create_connection(address, 10) as connection:
        connection.sendall(METADATA)
        answer(connection)
    assert "Traceback" not in capfd.readouterr().err


def test_hosts_of_members_are_written_as_java_does() -> None:
    require_ipv6()
    join: dict[str, object] = {"groupId": "any", "sessionTimeoutMs": 10000, "rebalanceTimeoutMs": 10000, "memberId": ""}
    join |= {"protocolType": "consumer", "protocols": [{"name": "range", "metadata": ""}]}
    with brokerless.serve(DEMO, listen="[::1]:0") as server:
        port = int(server.bootstrap_servers.rpartition(":")[2])
        with socket.create_connection(("::1", port), 10) as connection:
            connection.sendall(framed("JoinGroup", 3, join) + framed("DescribeGroups", 4, {"groups": ["any"]}))
            answer(connection)
            found, _ = decode(NAMES["DescribeGroups"].response, 4, answer(connection), 4)
    assert [each["clientHost"] for each in found["groups"][0]["members"]] == ["/0:0:0:0:0:0:0:1"]


REPEATED: list[tuple[str, int, str, list[object]]] = [
    ("DescribeConfigs", 1, "resources", [{"resourceType": 4, "resourceName": "1", "configurationKeys": None}]),
    ("Metadata", 4, "topics", [{"name": "users"}]),
    ("DescribeGroups", 4, "groups", ["any"]),
    ("DescribeProducers", 0, "topics", [{"name": "users", "partitionIndexes": [0]}]),
    ("FindCoordinator", 4, "coordinatorKeys", ["any"]),
    ("Fetch", 4, "topics", [{"topic": "users", "partitions": [{"fetchOffset": 0, "partitionMaxBytes": 1}]}]),
]


@pytest.mark.parametrize(("name", "version", "field", "elements"), REPEATED, ids=[each[0] for each in REPEATED])
def test_an_answer_does_not_grow_with_equal_elements(
    address: tuple[str, int], name: str, version: int, field: str, elements: list[object]
) -> None:
    limits: dict[str, object] = {"maxWaitMs": 0, "maxBytes": 1 << 20, "replicaId": -1} if name == "Fetch" else {}
    with socket.create_connection(address, 60) as connection:
        connection.sendall(framed(name, version, {**limits, field: elements}))
        once = answer(connection)
        connection.sendall(framed(name, version, {**limits, field: elements * 10_000}))
        assert answer(connection) == once


def test_ranges_come_from_the_file(address: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    (log,) = sorted((DEMO / "payments-0").glob("*.log"))
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1 << 30}
    topics = [{"topic": "payments", "partitions": [partition]}]
    wanted = framed("Fetch", 4, {"maxWaitMs": 0, "minBytes": 1, "maxBytes": 1 << 30, "replicaId": -1, "topics": topics})
    with socket.create_connection(address, 10) as connection:
        for inline in (0, 1 << 20):
            monkeypatch.setattr(batch_finder, "INLINE", inline)
            connection.sendall(wanted)
            found, _ = decode(apis()[1].response, 4, answer(connection), 4)
            assert found["responses"][0]["partitions"][0]["records"] == log.read_bytes()
