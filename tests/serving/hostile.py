"""Requests that cost more than they say, of every kind: ``python -m tests.serving.hostile MINUTES [ELEMENTS [write]]``.

Each kind of request is sent with one element again and again, with as many different ones as fit, and with both, on six
connections at a time; then come thousands of idle connections and half requests. Meanwhile an honest client asks for
topics and records. A line each says how many bytes went in and came out of one request, what memory the server took
more at most, and how long the honest client waited at most; without others, it waits as the first line says. With
``write``, the largest of each kind are the table in ``docs/attack-surface.md``.

``python -m tests.serving.hostile beside [ELEMENTS]`` measures how many times longer an honest client, which has an
address of its own, reads its records beside each of them.
"""

from __future__ import annotations

import contextlib
import re
import socket
import statistics
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from brokerless.format.messages.layouts import MessageField
from brokerless.serving.answers.dispatch import answered
from brokerless.serving.protocol.tables import Api
from brokerless.serving.protocol.writer import encode
from tests.serving.test_connection import METADATA, framed, received

ROOT = Path(__file__).parents[2]
DEMO, DOCUMENT = ROOT / "demo" / "data", ROOT / "docs" / "attack-surface.md"
MOST_BYTES, CONNECTIONS = 4 << 20, 6
ANSWERED_WITHIN_S = 120
OF_NAMES = {"Fetch": 12, "OffsetFetch": 9, "OffsetCommit": 9, "DeleteTopics": 5}
"""The last version that names topics, where later ones have their IDs."""
VALUES: dict[str, Any] = {
    "maxWaitMs": (1 << 31) - 1,
    "minBytes": (1 << 31) - 1,
    "maxBytes": (1 << 31) - 1,
    "partitionMaxBytes": (1 << 31) - 1,
    "sessionTimeoutMs": 6000,
    "rebalanceTimeoutMs": 6000,
    "sessionEpoch": -1,
    "replicaId": -1,
    "protocolType": "consumer",
    "groupId": "hostile",
    "acks": 1,
    "resourceType": 4,
    "configurationKeys": None,
}

LONG = "x" * 30_000
"""Each text of a request without a list."""
WAITING = ("JoinGroup", "SyncGroup")
"""Whose answers come when others are there."""
READS = [
    framed(
        "Fetch", 4,
        {"maxWaitMs": 100, "minBytes": 1, "maxBytes": 1 << 20, "replicaId": -1, "isolationLevel": 0,
         "topics": [{"topic": "orders", "partitions": [{"partition": number, "partitionMaxBytes": 16 << 10}]}]},
    )
    for number in range(3)
]  # fmt: skip
READ_TIMES, WITHIN_S = 15, 6.0
HONEST = ("127.0.0.2", 0)
"""The address of who reads; all others have 127.0.0.1."""

Variant = Literal["repeated", "different", "both", "long"]


@dataclass(frozen=True)
class Attack:
    """One request of a kind, with ``count`` elements."""

    api: Api
    variant: Variant
    count: int
    data: bytes

    @property
    def name(self) -> str:
        return f"{self.api.name} ({self.count} {self.variant})" if self.count else f"{self.api.name} (long)"


def attacks(most: int) -> Iterator[Attack]:
    """Requests of all kinds, with at most so many elements in their first array, or with long texts without one."""
    for api in answered():
        version = min(api.versions[-1], OF_NAMES.get(api.name, 99))
        array = next((each for each in _arrays(api.request.fields, version)), None)
        if array is None:
            yield Attack(api, "long", 0, _framed(api, version, None, []))
            continue
        one = len(_framed(api, version, array, [0])) + 40
        two = len(_framed(api, version, array, [0, 1])) + 40
        count = max(1, min(most, (MOST_BYTES - one) // max(1, two - one)))
        numbers: dict[Variant, list[int]] = {
            "repeated": [0] * count,
            "different": list(range(count)),
            "both": [*range(count // 2)] * 2,
        }
        for variant, chosen in numbers.items():
            yield Attack(api, variant, count, _framed(api, version, array, chosen))


def _arrays(fields: tuple[MessageField, ...], version: int) -> Iterator[MessageField]:
    return (each for each in fields if each.type.startswith("[]") and version in each.versions)


def _framed(api: Api, version: int, array: MessageField | None, numbers: list[int]) -> bytes:
    row = _row(api.request.fields, version, 0)
    if array is None:
        row = {name: LONG if isinstance(value, str) and value != "A" * 22 else value for name, value in row.items()}
    else:
        row[array.name] = _elements(array, version, numbers)
    head = struct.pack(">hhih", api.key, version, 7, 3) + b"any"
    head += b"\0" if version in api.request.flexible else b""
    (body,) = encode(api.request, version, row)
    assert isinstance(body, bytes)
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


def _elements(array: MessageField, version: int, numbers: list[int]) -> list[Any]:
    """Elements by their numbers; where each has an array itself, that has them, in a single one."""
    if array.type != "[]struct":
        return [_value(array.type.removeprefix("[]"), each) for each in numbers]
    inner = next(_arrays(array.fields, version), None)
    if inner is None or inner.name in VALUES:
        return [_row(array.fields, version, each) for each in numbers]
    return [_row(array.fields, version, 0) | {inner.name: _elements(inner, version, numbers)}]


def _row(fields: tuple[MessageField, ...], version: int, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for each in fields:
        if version not in each.versions or version in each.tagged:
            continue
        if each.name in VALUES:
            row[each.name] = VALUES[each.name]
        elif each.type == "struct":
            row[each.name] = None if version in each.nullable else _row(each.fields, version, number)
        elif each.type.startswith("[]"):
            row[each.name] = []
        else:
            row[each.name] = _value(each.type, number)
    return row


def _value(type_: str, number: int) -> Any:
    if type_ == "string":
        return f"orders{number or ''}"
    if type_ == "uuid":
        return "A" * 22
    if type_ in ("bytes", "records"):
        return "" if type_ == "bytes" else [b""]
    if type_ == "bool":
        return False
    return number % {"int8": 4, "int16": 1 << 15}.get(type_, 1 << 31)


@dataclass
class Cost:
    """``bytes_out`` is None where the connection was ended instead; times in seconds, ``grown`` in bytes."""

    name: str
    bytes_in: int = 0
    bytes_out: int | None = 0
    grown: int = 0
    longest: float = 0.0
    asked: int = 0
    failures: list[str] = field(default_factory=list[str])

    def line(self) -> str:
        out = "ended" if self.bytes_out is None else f"{self.bytes_out:,}"
        text = f"{self.name:58} {self.bytes_in:>12,} {out:>12} {self.grown >> 20:>6} MiB {self.longest * 1000:>8.0f} ms"
        return text if not self.failures else f"{text}  {self.failures[0]}"


@dataclass
class Served:
    address: tuple[str, int]
    pid: int

    def memory(self, name: str) -> int:
        """``VmRSS`` or ``VmHWM``, in bytes."""
        match = re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{self.pid}/status").read_text())
        assert match is not None
        return int(match[1]) << 10

    @contextmanager
    def measured(self, name: str) -> Generator[Cost]:
        """Ask as an honest client does, as long as the block lasts."""
        cost, ends = Cost(name), threading.Event()
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")  # VmHWM begins again
        before = self.memory("VmRSS")
        honest = threading.Thread(target=self._ask, args=(cost, ends))
        honest.start()
        try:
            yield cost
        finally:
            ends.set()
            honest.join()
            cost.grown = max(0, self.memory("VmHWM") - before)

    def _ask(self, cost: Cost, ends: threading.Event) -> None:
        while not cost.asked or not ends.is_set():
            began = time.monotonic()
            try:
                with socket.create_connection(self.address, ANSWERED_WITHIN_S) as client:
                    client.sendall(METADATA)
                    read_answer(client)
            except (OSError, EOFError) as error:
                cost.failures.append(f"the honest client: {type(error).__name__} {error}")
            cost.asked += 1
            cost.longest = max(cost.longest, time.monotonic() - began)
            time.sleep(0.005)


def read_answer(client: socket.socket) -> int:
    """Read an answer; return its bytes."""
    left = size = int.from_bytes(received(client, 4), "big")
    while left:
        part = len(client.recv(min(left, 1 << 20)))
        if not part:
            raise EOFError
        left -= part
    return size


@contextmanager
def served(directory: Path = DEMO) -> Generator[Served]:
    """A server in a process of its own."""
    words = [sys.executable, "-m", "brokerless", "serve", str(directory), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "bootstrap.servers=" in line)
            host, port = line.strip().partition("=")[2].split(":")
            yield Served((host, int(port)), process.pid)
        finally:
            process.terminate()


def send(server: Served, attack: Attack, connections: int = CONNECTIONS) -> Cost:
    """Send a request on some connections at a time, and wait for the answers, a Fetch for a while."""

    def sent(_: int) -> int | None:
        try:
            with socket.create_connection(server.address, ANSWERED_WITHIN_S) as client:
                client.sendall(METADATA)
                read_answer(client)
                client.sendall(attack.data)
                return read_answer(client)
        except (OSError, EOFError):
            return None

    with server.measured(attack.name) as cost, ThreadPoolExecutor(connections) as threads:
        cost.bytes_in = len(attack.data)
        sizes = list(threads.map(sent, range(connections)))
        cost.bytes_out = next((each for each in sizes if each is not None), None)
    return cost


def crowd(server: Served, count: int, data: bytes, name: str, *, is_known: bool) -> Cost:
    """Connections that send some bytes and nothing else; ``is_known``: after a whole request."""
    held: list[socket.socket] = []
    with server.measured(name) as cost:
        cost.bytes_in = len(data)
        for _ in range(count):
            with contextlib.suppress(OSError, EOFError):
                held.append(socket.create_connection(server.address, 10))
                if is_known:
                    held[-1].sendall(METADATA)
                    read_answer(held[-1])
                held[-1].sendall(data)
        time.sleep(1)
    for each in held:
        each.close()
    return cost


def crowds(server: Served, idle: int, half: int) -> Iterator[Cost]:
    """Connections that send nothing, and halves of requests."""
    yield crowd(server, idle, b"", f"{idle} idle connections", is_known=False)
    request = struct.pack(">i", 1 << 20) + bytes(40_000)
    yield crowd(server, half, request, f"{half} half requests of strangers", is_known=False)
    request = struct.pack(">i", 8 << 20) + bytes(200_000)
    yield crowd(server, half, request, f"{half} half requests", is_known=True)


def read_records(address: tuple[str, int]) -> float:
    """How long an honest client needs for its records (s)."""
    began = time.monotonic()
    with socket.create_connection(address, ANSWERED_WITHIN_S, HONEST) as client:
        for _ in range(5):
            for each in READS:
                client.sendall(each)
                read_answer(client)
    return time.monotonic() - began


def time_to_read(server: Served, times: int = READ_TIMES) -> float:
    """The median of some times (s)."""
    found: list[float] = []
    until = time.monotonic() + WITHIN_S
    while len(found) < times and (time.monotonic() < until or not found):
        found.append(read_records(server.address))
    return statistics.median(found)


@contextmanager
def flooded(server: Served, data: bytes, held: int = 0, *, is_known: bool = True) -> Generator[None]:
    """Another process sends a request again and again on some connections; or once on so many that it holds, as
    clients that are known or not."""
    numbers = map(str, (*server.address, held, int(is_known)))
    words = [sys.executable, "-m", "tests.serving.hostile", "flood", *numbers]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(data)
            process.stdin.close()
            process.stdout.readline()  # the first answer, or all are held
            yield
        finally:
            process.kill()


def flood(address: tuple[str, int], held: int, *, is_known: bool) -> None:
    data = sys.stdin.buffer.read()
    kept: list[socket.socket] = []
    for _ in range(held):
        with contextlib.suppress(OSError, EOFError):
            kept.append(socket.create_connection(address, 10))
            if is_known:
                kept[-1].sendall(METADATA)
                read_answer(kept[-1])
            kept[-1].sendall(data)
    if held:
        print(flush=True)
        time.sleep(WITHIN_S * 10)

    def send_on() -> None:
        while True:
            with contextlib.suppress(OSError, EOFError), socket.create_connection(address, 10) as client:
                client.sendall(METADATA)
                read_answer(client)
                while True:
                    client.sendall(data)
                    read_answer(client)
                    print(flush=True)

    with ThreadPoolExecutor(CONNECTIONS) as threads:
        for _ in range(CONNECTIONS):
            threads.submit(send_on)


def ratios(server: Served, chosen: Iterable[Attack], held: int) -> Iterator[tuple[str, float]]:
    """How many times longer an honest client reads beside each hostile program than without, at least: other programs
    of this machine may take the processors from one that reads, but not from all of its turns."""

    def least() -> float:
        return min(time_to_read(server) for _ in range(3))

    time_to_read(server)  # files that it opens are known then
    usual = least()
    for attack in chosen:
        with flooded(server, attack.data):
            yield attack.name, least() / usual
    for name, data, is_known in (
        (f"{held} idle connections", b"", False),
        (f"{held} half requests of strangers", struct.pack(">i", 1 << 20) + bytes(40_000), False),
        (f"{held} half requests", struct.pack(">i", 8 << 20) + bytes(200_000), True),
    ):
        with flooded(server, data, held, is_known=is_known):
            yield name, least() / usual


def write_table(costs: Iterable[Cost]) -> None:
    """Put the largest of each kind into the document."""
    kinds: dict[str, list[Cost]] = {}
    for each in costs:
        kinds.setdefault(each.name.partition(" (")[0], []).append(each)
    head = "| request | bytes in | bytes out | memory (MiB) | longest wait (ms) |"
    lines = [head, "|---|---|---|---|---|"]
    for kind, own in sorted(kinds.items()):
        known = [each.bytes_out for each in own if each.bytes_out is not None]
        out = f"{max(known):,}" if known else "ended"
        grown, longest = max(each.grown for each in own) >> 20, max(each.longest for each in own)
        lines.append(f"| {kind} | {max(each.bytes_in for each in own):,} | {out} | {grown} | {longest * 1000:.0f} |")
    text = DOCUMENT.read_text()
    before = text.partition(head)[0]
    after = text.partition(head)[2].partition("\n\n")[2]
    DOCUMENT.write_text(before + "\n".join(lines) + "\n" + (f"\n{after}" if after else ""))


def main(minutes: float = 0, most_elements: int = 100_000, *, writes: bool = False) -> None:
    import resource

    from brokerless.serving.descriptors import raise_limit

    raise_limit()
    most = min(5000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)
    until = time.monotonic() + 60 * minutes
    costs: list[Cost] = []

    def shown(found: Cost) -> None:
        costs.append(found)
        print(found.line(), flush=True)

    with served() as server:
        print(f"{'request':58} {'bytes in':>12} {'bytes out':>12} {'memory':>10} {'longest wait':>11}")
        with server.measured("nothing else") as cost:
            time.sleep(3)
        shown(cost)
        while True:
            for each in attacks(most_elements):
                shown(send(server, each))
            for cost in crowds(server, most, min(1000, most)):
                shown(cost)
            if time.monotonic() > until:
                break
        print(f"the server took at most {server.memory('VmHWM') >> 20} MiB at the end")
    if writes:
        write_table(costs)
    raise SystemExit(any(each.failures for each in costs))


def main_beside(most_elements: int = 20_000) -> None:
    variants = ("different", "long")
    chosen = [each for each in attacks(most_elements) if each.variant in variants and each.api.name not in WAITING]
    with served() as server:
        for name, ratio in ratios(server, chosen, 1000):
            print(f"{name:58} {ratio:6.1f} times", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "flood":
        flood((sys.argv[2], int(sys.argv[3])), int(sys.argv[4]), is_known=sys.argv[5] == "1")
    elif sys.argv[1] == "beside":
        main_beside(*map(int, sys.argv[2:]))
    else:
        main(*map(int, sys.argv[1:3]), writes=sys.argv[3:] == ["write"])
