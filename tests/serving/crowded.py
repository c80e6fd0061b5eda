"""Many clients at once: ``python -m tests.serving.crowded`` has 200 consumers, slow readers, half requests and 10,000
connections.

It prints what the server's process took at most, and ends with an error where a consumer did not get everything.
"""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import subprocess
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, TopicPartition

import brokerless

DEMO = Path(__file__).parents[2] / "demo" / "data"
CONSUMERS, CONNECTIONS = 200, 10_000


def main() -> None:
    words = [sys.executable, "-m", "brokerless", "serve", str(DEMO), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = next(line for line in process.stdout if "bootstrap.servers=" in line)
            host, port = line.strip().partition("=")[2].split(":")
            crowd((host, int(port)), process.pid)
        finally:
            process.terminate()


def crowd(address: tuple[str, int], pid: int) -> None:
    held = [socket.create_connection(address, 10) for _ in range(300)]
    for number, each in enumerate(held):
        each.sendall(struct.pack(">i", 16 << 20 if number % 2 else (2 << 30) - 1) + bytes(4000))
    began, results = time.monotonic(), list[int]()
    threads = [threading.Thread(target=lambda: results.append(consume(address))) for _ in range(CONSUMERS)]
    for each in threads:
        each.start()
    for _ in range(CONNECTIONS):
        with contextlib.suppress(OSError):
            socket.create_connection(address, 10).close()
    for each in threads:
        each.join()
    expected = sum(each.num_rows for each in brokerless.open(DEMO).topic("orders").records(["offset"]))
    print(f"{len(results)} consumers and {CONNECTIONS} connections in {time.monotonic() - began:.0f} s")
    match = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert match is not None
    print(f"the server took at most {int(match[1]) >> 10} MiB")
    if results != [expected] * CONSUMERS:
        raise SystemExit(f"consumers got {sorted(set(results))} records of {expected}")


def consume(address: tuple[str, int]) -> int:
    consumer = Consumer(
        {"bootstrap.servers": f"{address[0]}:{address[1]}", "group.id": "any", "enable.partition.eof": True,
         "enable.auto.commit": False, "log_level": 0}
    )  # fmt: skip
    consumer.assign([TopicPartition("orders", number, 0) for number in range(3)])
    count = ended = 0
    while ended < 3:
        message = consumer.poll(60)
        if message is None:
            break
        error = message.error()
        count += error is None
        ended += error is not None and error.code() == KafkaError._PARTITION_EOF
    consumer.close()
    return count


if __name__ == "__main__":
    main()
