"""Requests with changed bytes: ``python -m tests.serving.mutated 100000 SEED``; the server has to stay, and to stay
small."""

from __future__ import annotations

import random
import socket
import struct
import sys
import time
from pathlib import Path

import brokerless
from brokerless.format.messages.layouts import MessageField
from brokerless.serving.answers.dispatch import answered
from brokerless.serving.protocol import writer
from brokerless.serving.protocol.tables import Api

DEMO = Path(__file__).parents[2] / "demo" / "data"
NAMES = ("orders", "payments", "readers", "", "x" * 300)


def some_request(chance: random.Random) -> bytes:
    """A request with random fields, and then random bytes in some places."""
    api = chance.choice(answered())
    version = chance.choice(api.versions)
    data = bytearray(body_of(api, version, chance))
    for _ in range(chance.choice([0, 1, 1, 2, 5])):
        if data:
            at = chance.randrange(len(data))
            match chance.randrange(3):
                case 0:
                    data[at] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
                case 1:
                    del data[at : at + chance.randrange(1, 10)]
                case _:
                    data[at:at] = chance.randbytes(chance.randrange(1, 10))
    head = struct.pack(">hhih", api.key, version, chance.randrange(1 << 30), 3) + b"any"
    head += b"\0" if version in api.request.flexible else b""
    return (len(head) + len(data)).to_bytes(4, "big") + head + data


def body_of(api: Api, version: int, chance: random.Random) -> bytes:
    def value(type_: str) -> object:
        if type_.startswith("int") or type_.startswith("uint"):
            return chance.choice([0, 1, 2, -1 if type_[0] == "i" else 3, 5, 100])
        if type_ == "string":
            return chance.choice(NAMES)
        of_type = {"bool": True, "bytes": "AAAA", "records": [b"abc"], "float64": 1.5, "uuid": "A" * 22}
        return of_type[type_]

    def struct_of(fields: tuple[MessageField, ...]) -> dict[str, object]:
        row: dict[str, object] = {}
        for each in fields:
            name, type_ = each.name, each.type
            if version not in each.versions:
                continue
            if name in ("maxWaitMs", "sessionTimeoutMs", "rebalanceTimeoutMs"):
                row[name] = chance.choice([0, 1, 6000]) if name != "maxWaitMs" else 0
            elif type_ == "struct":
                row[name] = struct_of(each.fields)
            elif type_ == "[]struct":
                row[name] = [struct_of(each.fields) for _ in range(chance.randrange(3))]
            elif type_.startswith("[]"):
                row[name] = [value(type_[2:]) for _ in range(chance.randrange(3))]
            else:
                row[name] = value(type_)
        return row

    return b"".join(
        each for each in writer.encode(api.request, version, struct_of(api.request.fields)) if isinstance(each, bytes)
    )


def send_mutated(address: tuple[str, int], count: int, chance: random.Random) -> None:
    """Sends requests, and reads what comes for at most a moment."""
    connection: socket.socket | None = None
    for _ in range(count):
        try:
            if connection is None:
                connection = socket.create_connection(address, 10)
                connection.settimeout(0.02)
            connection.sendall(some_request(chance))
            if not connection.recv(1 << 20):
                raise ConnectionError
        except (ConnectionError, TimeoutError):
            if connection is not None:
                connection.close()
            connection = None
    if connection is not None:
        connection.close()


def main(count: int, seed: int) -> None:
    import resource

    with brokerless.serve(DEMO) as server:
        host, port = server.bootstrap_servers.split(":")
        began = time.monotonic()
        send_mutated((host, int(port)), count, random.Random(seed))
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        print(f"{count} requests in {time.monotonic() - began:.0f} s; this process has taken at most {most} MiB")


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30))
