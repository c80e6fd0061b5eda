"""What ``restore`` produces into a real broker is the source as a consumer of committed records saw it: after kills, by
topic, in time, with groups; and what a broker refuses is said before, or ends it in order."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

import brokerless
from brokerless.api.restore import restore as restore_in_python
from brokerless.errors import UsageError
from brokerless.jobs.restore.live import production
from tests.cli.conftest import Result, Run, run  # noqa: F401
from tests.kafka.broker import KafkaBroker, free_ports
from tests.kafka.jars import OLD_FORMATS
from tests.kafka.live import TIME
from tests.kafka.producers import consume
from tests.kafka.restore_kills import (
    TOPICS,
    Source,
    contents,
    copy_and_delete,
    differences,
    kill_and_finish,
    write_source,
)

pytestmark = pytest.mark.xdist_group("restored_live")
KILLS = 2
COMMITTED = {("orders", 0): 700, ("orders", 1): 10**6, ("clicks", 0): 0}


@dataclass
class Restoring:
    broker: KafkaBroker
    source: Source
    login: str
    """A listener that asks for a password."""


@pytest.fixture(scope="module")
def restoring(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Restoring]:
    """A broker that had the topics, whose group has read a part of them, and that has lost them."""
    directory = tmp_path_factory.mktemp("restoring") / "broker"
    with free_ports(1) as (port,):
        login = f"127.0.0.1:{port}"
    broker = KafkaBroker(directory, version=OLD_FORMATS)
    add_login(broker, login)
    with broker:
        source = write_source(broker, 6000)
        commit(broker, "readers")
        copy_and_delete(broker, source)
        yield Restoring(broker, source, login)


def add_login(broker: KafkaBroker, login: str) -> None:
    lines = dict(line.split("=", 1) for line in broker.properties.read_text().splitlines())
    lines["listeners"] += f",LOGIN://{login}"
    lines["advertised.listeners"] += f",LOGIN://{login}"
    lines["listener.security.protocol.map"] += ",LOGIN:SASL_PLAINTEXT"
    lines["inter.broker.listener.name"] = "PLAINTEXT"
    lines["sasl.enabled.mechanisms"] = "PLAIN"
    users = 'username="admin" password="a" user_ann="right"'
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    lines["listener.name.login.plain.sasl.jaas.config"] = f"{module} required {users};"
    broker.properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))


def commit(broker: KafkaBroker, group: str) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "enable.auto.commit": False})
    consumer.commit(offsets=[TopicPartition(*at, offset) for at, offset in COMMITTED.items()], asynchronous=False)
    consumer.close()


def restore(run: Run, restoring: Restoring, tmp_path: Path, *more: object) -> Result:  # noqa: F811
    arguments = ["--bootstrap-servers", restoring.broker.bootstrap, "--offset-map", tmp_path / "map"]
    return run("restore", restoring.source.path, *arguments, *more)


def test_after_kills_the_target_is_the_source_record_by_record(restoring: Restoring, tmp_path: Path) -> None:
    broker, source = restoring.broker, restoring.source
    seen, rows = kill_and_finish(broker, source, tmp_path / "map", KILLS, "30KB")
    assert len(seen) == KILLS
    assert differences(broker, source, tmp_path / "map") == []
    assert sum(row["sentEarlier"] for row in rows if row["table"] == "partitions") > 0
    expected = {at: sum(each.offset < offset for each in source.records[at]) for at, offset in COMMITTED.items()}
    assert broker.committed("readers", COMMITTED) == expected
    delete_topics_now(broker, *TOPICS)


def test_python_restores_as_the_command_does(restoring: Restoring, tmp_path: Path) -> None:
    result = restore_in_python(
        restoring.source.path, bootstrap_servers=restoring.broker.bootstrap, topics=["clicks"],
        offset_map=tmp_path / "map", apply=True,
    )  # fmt: skip
    before = restoring.source.records["clicks", 0]
    assert [contents(each) for each in consume(restoring.broker, "clicks")] == [contents(each) for each in before]
    assert (result.created, result.partitions[0].records, result.findings) == (("clicks",), len(before), ())
    delete_topics_now(restoring.broker, "clicks")
    with pytest.raises(UsageError, match="there is no topic clocks"):
        brokerless.restore(restoring.source.path, bootstrap_servers=restoring.broker.bootstrap, topics=["clocks"])


def test_a_dry_run_changes_nothing(run: Run, restoring: Restoring, tmp_path: Path) -> None:  # noqa: F811
    result = restore(run, restoring, tmp_path, "--groups")
    assert result.exit_code == 1
    assert sum("its committed offset in orders-1 is after what is restored" in line for line in result.lines) == 1
    assert "will be created" in result.lines[1]
    assert "nothing is changed yet" in result.lines[-1]
    assert not (tmp_path / "map").exists()
    assert "orders" not in restoring.broker.admin().list_topics(timeout=10).topics


def test_offsets_that_were_committed_to_serve_go_along(run: Run, restoring: Restoring, tmp_path: Path) -> None:  # noqa: F811
    """Of a group that has gone on with ``serve``, and one that only ``serve`` knows."""
    path = tmp_path / "offsets.jsonl"
    with brokerless.serve(restoring.source.path, offsets=path, on_damage=lambda _: None) as server:
        for group in ("went-on", "new"):
            consumer = Consumer({"bootstrap.servers": server.bootstrap_servers, "group.id": group})
            consumer.commit(offsets=[TopicPartition("clicks", 0, 7)], asynchronous=False)
            consumer.close()
    more = ("-t", "clicks", "--groups", "--offsets", path)
    result = restore(run, restoring, tmp_path, *more, "--apply")
    assert result.exit_code in (0, 1), result.err
    expected = sum(each.offset < 7 for each in restoring.source.records["clicks", 0])
    for group in ("went-on", "new"):
        assert restoring.broker.committed(group, COMMITTED)["clicks", 0] == expected
    delete_topics_now(restoring.broker, "clicks")
    alone = restore(run, restoring, tmp_path, "--offsets", path)
    assert (alone.exit_code, alone.err) == (2, "brokerless: --offsets needs --groups\n")


def test_settings_partitions_and_a_point_in_time(run: Run, restoring: Restoring, tmp_path: Path) -> None:  # noqa: F811
    """Topics get the source's settings; those of the target decide what is said."""
    broker = restoring.broker
    config = tmp_path / "client.properties"
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    text = "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
    text += f'sasl.jaas.config={module} required username="ann" password="PASSWORD";\n'
    until = TIME + 600_000
    arguments = ["restore", restoring.source.path, "--bootstrap-servers", restoring.login, "--command-config", config]
    arguments += ["--offset-map", tmp_path / "map", "-t", "clicks", "--until", until, "--apply"]
    config.write_text(text.replace("PASSWORD", "wrong"))
    denied = run(*arguments)
    assert denied.exit_code == 2
    assert "uthentication failed" in denied.err
    assert "wrong" not in denied.err
    config.write_text(text.replace("PASSWORD", "right"))
    done = run(*arguments)
    assert done.exit_code == 1, done.err  # others that are older come later
    before = restoring.source.records["clicks", 0]
    end = next(number for number, each in enumerate(before) if each.timestamp >= until)
    assert [contents(each) for each in consume(broker, "clicks")] == [contents(each) for each in before[:end]]
    late = sum(each.timestamp < until for each in before[end:])
    assert f"{late:,} records after offset" in done.out.decode()
    again = restore(run, restoring, tmp_path / "other", "-t", "clicks", "--apply")
    assert again.exit_code == 2
    assert "give --append to restore after them" in again.err
    more = restore(run, restoring, tmp_path / "other", "-t", "clicks", "--append", "--apply", "--json")
    assert more.exit_code == 0, more.err
    assert (more.json[0]["targetFirst"], more.json[0]["targetEnd"]) == (end, end + len(before))
    delete_topics_now(broker, "clicks")


def delete_topics_now(broker: KafkaBroker, *topics: str) -> None:
    admin = broker.admin()
    for done in admin.delete_topics(list(topics), operation_timeout=20).values():
        done.result(30)
    while set(topics) & admin.list_topics(timeout=10).topics.keys():
        time.sleep(0.1)


def test_a_record_that_is_refused_ends_it_and_the_next_run_goes_on(
    run: Run,  # noqa: F811
    restoring: Restoring,
    tmp_path: Path,
) -> None:
    """A limit of the topic that only the broker knows how to apply, as the batches are compressed."""
    broker, places = restoring.broker, [("orders", number) for number in range(3)]
    broker.create_topic("orders", 3, max_message_bytes=150)
    refused = restore(run, restoring, tmp_path, "-t", "orders", "--apply")
    assert refused.exit_code == 2
    assert "larger than the target's max.message.bytes" in refused.out.decode()
    assert "raise max.message.bytes of the topic with kafka-configs. Then run this again to go on" in refused.err
    set_config(broker, "orders", "max.message.bytes", "2000000")
    done = restore(run, restoring, tmp_path, "-t", "orders", "--apply")
    assert done.exit_code == 0, done.err
    for place in places:
        after = [contents(each) for each in consume(broker, *place)]
        assert after == [contents(each) for each in restoring.source.records[place]]
    delete_topics_now(broker, "orders")


@pytest.mark.parametrize("compression", ["producer", "uncompressed"])
def test_batches_fit_into_small_segments(
    compression: str,
    run: Run,  # noqa: F811
    restoring: Restoring,
    tmp_path: Path,
) -> None:
    broker, places = restoring.broker, [("orders", number) for number in range(3)]
    broker.create_topic("orders", 3, segment_bytes=5000, compression_type=compression)
    done = restore(run, restoring, tmp_path, "-t", "orders", "--apply")
    assert done.exit_code == 0, done.err
    for place in places:
        after = [contents(each) for each in consume(broker, *place)]
        assert after == [contents(each) for each in restoring.source.records[place]]
    delete_topics_now(broker, "orders")


def test_a_record_that_no_segment_takes_is_an_error_before_anything_is_sent(
    run: Run,  # noqa: F811
    restoring: Restoring,
    tmp_path: Path,
) -> None:
    broker = restoring.broker
    broker.create_topic("orders", 3, segment_bytes=100, compression_type="uncompressed", min_insync_replicas=2)
    refused = restore(run, restoring, tmp_path, "-t", "orders", "--apply")
    assert refused.exit_code == 2
    text = " ".join((refused.out.decode() + refused.err).split())
    assert "larger than the target's segment.bytes" in text
    assert "orders has 1 replicas in sync" in text
    assert not [each for number in range(3) for each in consume(broker, "orders", number)]
    assert not (tmp_path / "map").exists()
    delete_topics_now(broker, "orders")


def set_config(broker: KafkaBroker, topic: str, name: str, value: str) -> None:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
    admin = broker.admin()
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def test_damaged_records_are_reported_and_all_others_restored(
    run: Run,  # noqa: F811
    restoring: Restoring,
    tmp_path: Path,
) -> None:
    damaged = tmp_path / "damaged" / "clicks-0"
    shutil.copytree(restoring.source.path / "clicks-0", damaged)
    log = max(damaged.glob("*.log"), key=lambda each: each.stat().st_size)
    batches = brokerless.open(log).batches(["position", "baseOffset", "lastOffset"]).read_all().to_pylist()
    gone = batches[len(batches) // 2]
    content = bytearray(log.read_bytes())
    content[gone["position"] + 80] ^= 1
    log.write_bytes(content)
    source = Restoring(restoring.broker, Source(damaged.parent, {}), "")
    result = restore(run, source, tmp_path, "--apply")
    assert result.exit_code == 1
    assert "checksum" in result.err
    before = restoring.source.records["clicks", 0]
    left = [each for each in before if not gone["baseOffset"] <= each.offset <= gone["lastOffset"]]
    assert 0 < len(left) < len(before)
    after = consume(restoring.broker, "clicks")
    assert [contents(each) for each in after] == [contents(each) for each in left]
    delete_topics_now(restoring.broker, "clicks")


def test_a_broker_that_dies_meanwhile_ends_it_and_the_next_run_goes_on(
    run: Run,  # noqa: F811
    restoring: Restoring,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a group with members is left alone."""
    broker, over = restoring.broker, threading.Event()

    def kill() -> None:
        """As soon as the map has records; only a broker that is dead is not waited for."""
        if wait_for_records(tmp_path / "map" / "journal.jsonl", over):
            broker.kill()
            monkeypatch.setattr(production, "PATIENCE_S", 1.0)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        died = restore(run, restoring, tmp_path, "-t", "clicks", "--apply", "--rate", "30KB")
    finally:
        over.set()
        killer.join(60)
    assert died.exit_code == 2
    assert "no record was acknowledged for 1 s" in died.err
    broker.start()
    monkeypatch.undo()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": "readers"})
    broker.create_topic("other")
    consumer.subscribe(["other"])
    while not consumer.assignment():
        consumer.poll(0.1)
    done = restore(run, restoring, tmp_path, "-t", "clicks", "--apply", "--groups")
    consumer.close()
    assert done.exit_code == 1
    assert "the group is active on the target" in done.out.decode()
    before = restoring.source.records["clicks", 0]
    assert [contents(each) for each in consume(broker, "clicks")] == [contents(each) for each in before]


def wait_for_records(journal: Path, over: threading.Event) -> bool:
    """Wait until the map of a restore has records; False if the restore is over before."""
    while not journal.exists() or journal.read_bytes().count(b"\n") < 2:
        if over.wait(0.01):
            return False
    return True
