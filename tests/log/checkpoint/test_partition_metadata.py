"""Oracle: what Kafka's ``PartitionMetadataReadBuffer`` refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerless.log.checkpoint.partition_metadata import load_partition_metadata
from brokerless.log.storage.location import Location


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("", "partition-metadata-corrupt"),
        ("version: 0\n", "partition-metadata-corrupt"),
        ("version: -1\ntopic_id: GGfzE_HvRoGT7m9N-0_chw", "partition-metadata-corrupt"),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "partition-metadata-corrupt"),
        ("version: 0\ntopic_id: GGfzE_HvRoGT7m9N", "partition-metadata-corrupt"),
    ],
)
def test_a_partition_without_a_topic_id_is_a_finding(tmp_path: Path, text: str, kind: str) -> None:
    path = tmp_path / "partition.metadata"
    path.write_text(text)
    read = load_partition_metadata(Location(str(path)))
    assert (read.version, read.topic_id, [each.kind for each in read.findings]) == (None, None, [kind])
