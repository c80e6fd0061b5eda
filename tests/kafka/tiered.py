"""Brokers with tiered topics: a directory stands for the bucket (``java/DirectoryRemoteStorage.java``)."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource

import brokerless
from tests.kafka.broker import SETTINGS, KafkaBroker
from tests.kafka.jars import NEWEST, compile_helpers
from tests.kafka.producers import Consumed, Isolation, consume

ISOLATIONS: tuple[Isolation, ...] = ("read_uncommitted", "read_committed")
METADATA_PARTITIONS = 2
CLASS = "DirectoryRemoteStorage"


QUICK = {
    name: SETTINGS[name]
    for name in (
        "log.initial.task.delay.ms",
        "log.flush.start.offset.checkpoint.interval.ms",
        "offsets.topic.num.partitions",
        "transaction.state.log.num.partitions",
        "broker.session.timeout.ms",
        "broker.heartbeat.interval.ms",
    )
}


def s3_settings(url: str, bucket: Path) -> dict[str, str]:
    """Settings of a broker whose tiered topics are at ``url``, a bucket's of an S3 server; ``bucket``: what names the
    files that hold a copy."""
    own = {"rsm.config.url": url, "rsm.config.hold": f"{bucket}.hold"}
    return {**tiered_settings(bucket), "remote.log.storage.manager.class.name": "S3RemoteStorage", **own}


def tiered_settings(bucket: Path, version: str = NEWEST) -> dict[str, str]:
    """Settings of a broker whose tiered topics are in ``bucket``."""
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": CLASS,
        "remote.log.storage.manager.class.path": f"{compile_helpers(version)}/",
        "remote.log.metadata.manager.listener.name": "PLAINTEXT",
        "rlmm.config.remote.log.metadata.topic.replication.factor": "1",
        "rlmm.config.remote.log.metadata.topic.num.partitions": str(METADATA_PARTITIONS),
        "rsm.config.dir": str(bucket),
        "remote.log.manager.task.interval.ms": "200",
        "log.retention.check.interval.ms": "300",
    }


def printed_properties(printed: Mapping[str, str], bucket: Path) -> str:
    """A ``server.properties`` with exactly the settings that ``rebuild`` prints, those that it cannot know, and what
    makes a test short."""
    own = tiered_settings(bucket)
    unknown = {
        "CLASS": own["remote.log.storage.manager.class.name"],
        "PATH": own["remote.log.storage.manager.class.path"],
    }
    more = ("rsm.config.dir", "remote.log.manager.task.interval.ms", "log.retention.check.interval.ms")
    settings = {"log.retention.ms": "-1", **QUICK, **{name: own[name] for name in more}, **printed}
    return "".join(f"{name}={unknown.get(value, value)}\n" for name, value in settings.items())


def objects(bucket: Path) -> Counter[str]:
    """How many objects there are of each partition, by the name of its directory on a broker."""
    return Counter(each.parent.name[: -len("-") - 22] for each in bucket.glob("*/*"))


def wait_for(is_so: Callable[[], Any], what: str) -> Any:
    """Return what ``is_so`` returns once that is true."""
    give_up = time.monotonic() + 90
    while not (found := is_so()):
        assert time.monotonic() < give_up, f"not within 90 s: {what}"
        time.sleep(0.1)
    return found


def serves_remote(broker: KafkaBroker, topic: str, partition: int) -> bool:
    """Whether a consumer gets records: just after a start, remote ones are answered with an error, as the broker has
    not read the metadata of remote segments yet."""
    with suppress(KafkaException):
        return bool(consume(broker, topic, partition))
    return False


def rows_of(directory: Path | str, topic: str, partition: int, isolation: Isolation, **options: Any) -> list[Consumed]:
    """The records of a partition as brokerless reads them. ``options``: of ``brokerless.open``."""
    columns = ["offset", "timestamp", "key", "value", "headers"]
    log = brokerless.open(directory, **options)
    return [
        Consumed(
            row["offset"], row["timestamp"], row["key"], row["value"],
            tuple((each["key"], each["value"]) for each in row["headers"]),
        )
        for batch in log.partition(topic, partition).records(columns, isolation=isolation)
        for row in batch.set_column(1, "timestamp", batch.column("timestamp").cast("int64")).to_pylist()
    ]  # fmt: skip


def alter_topic(broker: KafkaBroker, topic: str, **settings: object) -> None:
    """Set settings of a topic, with ``_`` for the dots."""
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    for name, value in settings.items():
        entry = ConfigEntry(name.replace("_", "."), str(value), incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
    admin = broker.admin()  # kept alive until its futures are done
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(30)


def delete_records(broker: KafkaBroker, topic: str, partition: int, before: int) -> None:
    admin = broker.admin()
    for done in admin.delete_records([TopicPartition(topic, partition, before)]).values():
        done.result(30)


def checkpointed(broker: KafkaBroker, topic: str, partition: int, name: str = "log-start-offset-checkpoint") -> int:
    """A partition's offset in a checkpoint, -1 without a line."""
    file = broker.log_dir / name
    lines = file.read_text().splitlines()[2:] if file.exists() else []
    found = {tuple(line.split()[:2]): int(line.split()[2]) for line in lines if len(line.split()) == 3}
    return found.get((topic, str(partition)), -1)
