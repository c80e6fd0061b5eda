from __future__ import annotations

import errno
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

import brokerless
from brokerless.format.messages.reader import decode
from brokerless.serving import connection as connections
from brokerless.serving import server as servers
from brokerless.serving.listener import listen
from tests.require import require_ipv6
from tests.serving.differential import NAMES
from tests.serving.test_connection import METADATA, answer, framed

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "demo" / "data"
FETCH = framed(
    "Fetch",
    4,
    {
        "maxWaitMs": 0,
        "minBytes": 1,
        "maxBytes": 1 << 20,
        "replicaId": -1,
        "topics": [{"topic": "orders", "partitions": [{"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 1000}]}],
    },
)


def test_all_addresses_of_a_host_have_one_port() -> None:
    require_ipv6()
    sockets = listen("localhost", 0)
    assert len({each.getsockname()[1] for each in sockets}) == 1
    for each in sockets:
        each.close()


def test_an_address_that_cannot_be_listened_on_is_an_error() -> None:
    (taken,) = listen("127.0.0.1", 0)
    with pytest.raises(OSError, match="in use") as error:
        listen("127.0.0.1", taken.getsockname()[1])
    assert error.value.errno == errno.EADDRINUSE
    taken.close()


def fetched(client: socket.socket) -> int:
    """The error of a partition's batches."""
    client.sendall(FETCH)
    found, _ = decode(NAMES["Fetch"].response, 4, answer(client), 4)
    return found["responses"][0]["partitions"][0]["errorCode"]


@contextmanager
def idle(address: tuple[str, int], count: int) -> Generator[None]:
    clients = [socket.create_connection(address, 10) for _ in range(count)]
    yield
    for each in clients:
        each.close()


def test_idle_clients_take_no_descriptor_that_files_need(tmp_path: Path) -> None:
    """As it is on a system where a process may open 256 files."""
    log = tmp_path / "log"
    words = [sys.executable, "-m", "brokerless", "serve", str(DEMO), "--listen", "127.0.0.1:0"]
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            words,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)),
            env={**os.environ, "NUMBA_NUM_THREADS": "1"},
        ) as process,
    ):
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "bootstrap.servers=" in line)
            host, port = line.strip().partition("=")[2].split(":")
            address = host, int(port)
            with socket.create_connection(address, 10) as old:
                assert fetched(old) == 0
                with idle(address, 400):
                    assert fetched(old) == 0
                    with socket.create_connection(address, 10) as new:
                        assert fetched(new) == 0
        finally:
            process.terminate()
    assert process.returncode == 0
    assert log.read_text() == ""


def test_a_client_finds_a_place_beside_any_number_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "most_connections", lambda: 16)
    with brokerless.serve(DEMO) as server:
        host, port = server.bootstrap_servers.split(":")
        address = host, int(port)
        with socket.create_connection(address, 10) as old:
            assert fetched(old) == 0
            with idle(address, 100), socket.create_connection(address, 10) as new:
                assert fetched(old) == fetched(new) == 0
            with socket.create_connection(address, 10) as new:
                assert fetched(new) == 0
            held: list[socket.socket] = []
            for _ in range(30):  # known ones, which wait
                held.append(socket.create_connection(address, 10))
                held[-1].sendall(METADATA)
                answer(held[-1])
            with socket.create_connection(address, 10) as new:
                assert fetched(new) == 0
            for each in held:
                each.close()


def test_who_sends_nothing_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "STRANGER_S", 0.0)
    with brokerless.serve(DEMO) as server:
        host, port = server.bootstrap_servers.split(":")
        with socket.create_connection((host, int(port)), 10) as client:
            assert client.recv(1) == b""
