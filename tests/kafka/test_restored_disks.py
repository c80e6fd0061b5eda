"""Three real brokers start on what ``restore --to`` wrote into their log directories: the same records at the same
offsets, committed and not, in all replicas, which do not truncate, whoever leads; groups go on where they were, those
of Kafka's own consumer in both protocols."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.broker import KafkaBroker
from tests.kafka.restored_disks import check_restored

pytestmark = pytest.mark.xdist_group("kafka")


def test_brokers_start_on_what_was_restored(kafka: KafkaBroker, tmp_path: Path) -> None:
    check_restored(kafka, tmp_path)
