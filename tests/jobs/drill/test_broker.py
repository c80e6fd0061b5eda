"""Which Kafka a drill starts, and what it refuses before anything is rebuilt."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.jobs.backup.disks import DEMO

import brokerless
from brokerless import UsageError
from brokerless.jobs.drill.broker import LOOPBACK, find_kafka, mapping_file
from brokerless.values import from_json


@pytest.fixture
def kafka(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What looks like an installation, with a Java."""
    (tmp_path / "kafka" / "libs").mkdir(parents=True)
    for name in ("kafka-clients-4.4.0.jar", "kafka_2.13-4.4.0.jar", "kafka_2.13-4.4.0-sources.jar"):
        (tmp_path / "kafka" / "libs" / name).touch()
    (tmp_path / "kafka" / "bin").mkdir()
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    return tmp_path / "kafka"


@pytest.mark.parametrize("below", [".", "bin", "libs"])
def test_a_kafka_is_known_by_its_directory_and_those_in_it(kafka: Path, below: str) -> None:
    found = find_kafka(kafka / below)
    assert (found.version, found.jars) == ("4.4.0", kafka / "libs")


def test_its_logs_are_written_as_its_own_settings_say(kafka: Path) -> None:
    (kafka / "config").mkdir()
    (kafka / "config" / "log4j2.yaml").touch()
    command = find_kafka(kafka).command(kafka / "server.properties")
    assert f"-Dlog4j2.configurationFile={kafka / 'config' / 'log4j2.yaml'}" in command
    assert f"-Dkafka.logs.dir={kafka}" in command
    assert command[-2:] == ["kafka.Kafka", str(kafka / "server.properties")]


def test_another_directory_is_refused(kafka: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"has no kafka_2\.13-VERSION\.jar"):
        find_kafka(tmp_path)
    with pytest.raises(UsageError, match="No such file or directory; give the directory of a Kafka"):
        find_kafka(tmp_path / "nothing")


def test_without_java_no_drill_begins(kafka: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    brokerless.backup(DEMO, tmp_path / "backup", topics=["orders"])
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="a broker needs Java, and there is none in JAVA_HOME"):
        brokerless.Backup(tmp_path / "backup").drill(start=kafka, scratch=tmp_path / "scratch")
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError, match="there is none in PATH"):
        brokerless.Backup(tmp_path / "backup").drill(start=kafka, scratch=tmp_path / "scratch")
    assert not (tmp_path / "scratch").exists()


def test_one_broker_has_no_replicas_of_other_nodes(kafka: Path, tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup", topics=["orders"])
    with pytest.raises(UsageError, match="is of one broker"):
        brokerless.Backup(tmp_path / "backup").drill(start=kafka, spread=True)


def test_it_listens_on_the_loopback_alone_on_ports_of_its_own(tmp_path: Path) -> None:
    (node,) = from_json(mapping_file(tmp_path).read_bytes(), dict)["nodes"]
    addresses = list(node["listeners"].values())
    assert all(each.startswith(f"{LOOPBACK}:") for each in addresses)
    assert len(set(addresses)) == 2
