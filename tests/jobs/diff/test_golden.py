"""Logs of real Kafka are the same as themselves and as what our writers make of them, but for the expected causes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden import BROKERS, broker_data, cases

import brokerless
from brokerless.errors import UnreadableError
from brokerless.format.other_files import LONGEST_MAGIC, name_contents

DEMO = Path(__file__).parents[3] / "demo"


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("broker", BROKERS)
def test_a_log_directory_is_the_same_as_itself(broker: str, quick: bool) -> None:
    data = broker_data(broker)
    log = brokerless.open(data)
    topics = [each.name for each in log.topics]
    found = brokerless.diff(data, log, topics=topics, quick=quick)
    assert found.is_same
    assert [each.causes for each in found.partitions] == [{}] * len(log)
    for each, partition in zip(found.partitions, log, strict=True):
        records = partition.records(["offset"], on_damage=lambda _: None).read_all().num_rows
        assert (each.records, each.same) == (records, records)


@pytest.mark.parametrize("category", ["formats", "articles", "specials", "framing", "damaged"])
def test_a_file_is_the_same_as_itself_or_could_not_be_compared(category: str) -> None:
    for case in cases(category):
        if name_contents(case.log.read_bytes()[:LONGEST_MAGIC], str(case.log)) is not None:
            with pytest.raises(UnreadableError, match="this is "):
                brokerless.diff(case.log, case.log)
            continue
        found = brokerless.diff(case.log, case.log, max_batch_bytes=1 << 20)
        (partition,) = found.partitions
        assert partition.differences == (), case.log
        assert not partition.missing + partition.extra + partition.changed
        assert partition.is_same == (not partition.uncompared)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_converted_log_has_the_same_records(codec: str, tmp_path: Path) -> None:
    log = brokerless.open(broker_data("old-formats"))
    converted = log.convert(tmp_path / "to", message_format=2, codec=codec, batch_size=4000)
    assert converted
    found = brokerless.diff(log, tmp_path / "to")
    assert found.is_same
    causes = {cause for each in found.partitions for cause in each.causes or ()}
    assert causes == {"regrouped", "recompressed"}
