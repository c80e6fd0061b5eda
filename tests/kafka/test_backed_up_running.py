"""Backups of brokers that run, under load: brokers that start on one serve what was acknowledged before it."""

from __future__ import annotations

from pathlib import Path

import brokerless
from tests.kafka.broker import KafkaBroker
from tests.kafka.load import TOPICS, check_served, clients
from tests.kafka.rebuilt import mapping, nodes_of, running

SETTINGS = {"log.cleaner.backoff.ms": "50", "log.retention.check.interval.ms": "200"}
ROUNDS = 5


def test_what_was_acknowledged_before_a_backup_is_served_after_it(kafka_jars: Path, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    with KafkaBroker(tmp_path / "broker", SETTINGS) as broker:
        for topic, settings in TOPICS.items():
            broker.create_topic(topic, **settings)
        with clients(broker.bootstrap) as load:
            for number in range(ROUNDS):
                load.wait_for(200 * (number + 1), 10 * (number + 1))
                before = load.copy()
                result = brokerless.backup(broker.log_dir, place, name=f"run-{number}")
                assert result.snapshot.is_complete, result.findings
                assert not [each for each in result.findings if each.severity != "info"]
    assert not brokerless.Backup(place).check(read="all").findings
    brokerless.merge(f"{place}@run-{ROUNDS - 1}", tmp_path / "restored")
    nodes = mapping(tmp_path / "nodes.json", (1,), (1,))
    rebuilt = brokerless.rebuild(tmp_path / "restored", tmp_path / "to", mapping=nodes, apply=True)
    with running(nodes_of(tmp_path, rebuilt)) as restored:
        check_served(restored, before)
