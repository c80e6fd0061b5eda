from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.cli.conftest import Run
from tests.kafka.jars import check
from tests.kafka.jars import run as java

DEMO = Path(__file__).parents[3] / "demo" / "data"
SERVE = [sys.executable, "-m", "brokerless", "serve"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_serves_until_it_is_ended(number: signal.Signals) -> None:
    words = [*SERVE, str(DEMO), "--listen", "127.0.0.1:0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        row = json.loads(process.stdout.readline())
        host, port = row.pop("bootstrapServers").split(":")
        assert row.pop("sizeInBytes") > 100_000
        assert row == {"clusterId": "bdhh6u6GT8yYm_jDxKDkxQ", "nodeId": 1, "topics": 5, "partitions": 7}
        with socket.create_connection((host, int(port)), 10) as connection:
            connection.sendall(bytes.fromhex("0000000a0012000000000007ffff"))
            assert connection.makefile("rb").read(8)[4:] == bytes.fromhex("00000007")
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
        assert (process.returncode, out, err) == (0, b"", b"")


def test_it_says_what_it_serves_and_how_to_read_it() -> None:
    words = [*SERVE, str(DEMO / "orders-0"), str(DEMO / "orders-1"), "--listen", "127.0.0.1:0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().decode() for _ in range(5)]
        process.terminate()
    assert lines[0].startswith(f"serving {DEMO}/orders-0, {DEMO}/orders-1 read-only: 1 topic, 2 partitions, ")
    assert lines[1] == "to programs on this machine, without logins, without TLS:\n"
    address = lines[2].partition("bootstrap.servers=")[2].strip()
    assert lines[4] == "groups have no committed offsets: __consumer_offsets is not on these disks\n"
    assert lines[3] == f"  kafka-console-consumer.sh --bootstrap-server {address} --topic orders --from-beginning\n"


def test_the_lines_to_paste_work_with_logins(tmp_path: Path, kafka_jars: Path) -> None:
    """Its lines, saved as client.properties with a name and a password, and its command, by Kafka's own tool."""
    (tmp_path / "users").write_text("alice:secret\n")
    words = [*SERVE, str(DEMO), "--listen", "127.0.0.1:0", "--users", str(tmp_path / "users")]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline().decode().strip() for _ in range(8)]
        settings = [each for each in lines if "=" in each.partition(" ")[0]]
        assert [each.partition("=")[0] for each in settings] == [
            "bootstrap.servers", "security.protocol", "sasl.mechanism", "sasl.jaas.config"
        ]  # fmt: skip
        assert "sasl.mechanism=SCRAM-SHA-512" in settings
        client = tmp_path / "client.properties"
        client.write_text("\n".join(settings).replace("NAME", "alice").replace("PASSWORD", "secret"))
        (command,) = [each for each in lines if each.startswith("kafka-console-consumer.sh ")]
        options = command.replace("client.properties", str(client)).split()[1:]
        main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
        read = check(java(main, *options, "--max-messages", "10", "--timeout-ms", "30000", alone=True))
        process.terminate()
    assert len(read.splitlines()) >= 10


@pytest.mark.parametrize("words", [["-t", "orders"], ["-t", "orders", "-p", "2"], ["--exclude-internal"], []])
def test_groups_go_on_whatever_topics_are_served(words: list[str]) -> None:
    """What they have committed is read, but its topic is served only if it is selected."""
    with subprocess.Popen([*SERVE, str(DEMO), "--listen", "127.0.0.1:0", *words], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        printed = [process.stdout.readline().decode() for _ in range(3)]
        address = printed[2].partition("bootstrap.servers=")[2].strip()
        consumer = Consumer({"bootstrap.servers": address, "group.id": "shipping"})
        (committed,) = consumer.committed([TopicPartition("orders", 2)], timeout=60)
        topics = consumer.list_topics(timeout=60).topics
        consumer.close()
        process.terminate()
    assert committed.offset == 500
    assert ("__consumer_offsets" in topics) == (not words)


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--listen", "0.0.0.0:0"], "--insecure"),
        (["--listen", "nowhere"], "'nowhere' has no port; write nowhere:9092"),
        (["--port", "9092"], "there is no option --port; did you mean --listen 127.0.0.1:PORT"),
        (["-t", "none"], "no topic none"),
        (["--offsets", str(DEMO / "offsets")], "nothing is written there"),
        (["--offsets", "/nowhere/offsets"], "nothing can be written there; give another file for --offsets"),
    ],
)
def test_what_cannot_be_served_is_refused(run: Run, words: list[str], text: str) -> None:
    result = run("serve", DEMO, *words)
    assert result.exit_code == 2
    assert text in result.err
