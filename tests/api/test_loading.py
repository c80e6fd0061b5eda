"""``brokerless.writing.PartitionOutput``: its options have names."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerless.errors import UsageError
from brokerless.writing import LogConfig, PartitionOutput
from tests.log.commit.test_partition_writer import TEN


def test_a_partition_is_written_with_what_its_options_say(tmp_path: Path) -> None:
    topic_id = "P4KqAlm-RcmdL3bLO8vOmg"
    config = LogConfig(segment_bytes=1 << 20)
    with PartitionOutput(tmp_path, "orders", 3, config, start_offset=0, topic_id=topic_id) as output:
        output.append(TEN)
        output.commit()
    assert f"topic_id: {topic_id}" in (tmp_path / "orders-3/partition.metadata").read_text()
    with PartitionOutput(tmp_path, "orders", 3, config, owner="abc", is_append=True, has_offsets=False) as output:
        output.append(TEN)
        assert not output.finish().has_offsets
    with pytest.raises(UsageError, match="exists already"):
        PartitionOutput(tmp_path, "orders", 3)
