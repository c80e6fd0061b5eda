"""A real broker and its consumers on logs without the marker of an aborted transaction: with the index that knows of
it, with that index rebuilt, and with logs that brokerless wrote of them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import brokerless
from brokerless.clusters.start.effects import partition_effects
from tests.kafka.broker import KafkaBroker
from tests.kafka.gone_markers import TOPICS, ask, damaged
from tests.log.producer.gone_marker_logs import CONSUMED, INDEXED, committed, consumed

pytestmark = pytest.mark.xdist_group("restart")


@pytest.fixture
def broker(kafka_jars: Path, tmp_path: Path) -> Iterator[KafkaBroker]:
    found = damaged(tmp_path / "broker")
    yield found
    found.kill()


def exposed(broker: KafkaBroker) -> set[str]:
    log = brokerless.open(broker.log_dir)
    return {
        topic
        for topic in TOPICS
        for each in partition_effects(log.partition(topic, 0).restart().partitions[0])
        if each.kind == "aborted-exposed"
    }


def test_consumers_get_what_the_index_says_until_it_is_rebuilt(broker: KafkaBroker, tmp_path: Path) -> None:
    assert exposed(broker) == {"segment"}
    for topic in TOPICS:
        assert committed(broker.log_dir, topic)[0] == consumed(topic)
    kept = tmp_path / "kept"
    shutil.copytree(broker.log_dir, kept)
    with broker:
        answers = ask(broker)
    assert answers == {topic: CONSUMED["clean"][topic] for topic in TOPICS}

    written = tmp_path / "written"
    for topic in INDEXED:
        brokerless.open(kept / f"{topic}-0").salvage(written)
    for topic in INDEXED:
        ours, theirs = written / f"{topic}-0", broker.log_dir / f"{topic}-0"
        shutil.copyfile(theirs / "partition.metadata", ours / "partition.metadata")
        shutil.rmtree(theirs)
        shutil.copytree(ours, theirs)
    with broker:
        answers = ask(broker)
    for topic in INDEXED:
        found = answers[topic]
        assert found["kafka"] == found["librdkafka"]
        assert sorted({*found["kafka"], *found["kafka_after_marker"]}) == consumed(topic)

    shutil.rmtree(broker.log_dir)
    shutil.copytree(kept, broker.log_dir)
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (broker.log_dir / name).unlink()
    assert exposed(broker) == {*TOPICS}
    with broker:
        answers = ask(broker)
    assert answers == {topic: CONSUMED["unclean"][topic] for topic in TOPICS}
