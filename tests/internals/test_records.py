"""What records of internal topics say is what Kafka's dump tool says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.golden import golden
from tests.internals.dumps import Dumped, dumped_records

import brokerless
from brokerless.internals.records import decode_record

DUMPS = sorted(golden().glob("brokers/*/expected/*/*.dump.txt"))


def decoded_records(log: Path) -> dict[int, Dumped]:
    topic = log.parent.name.rpartition("-")[0]
    found: dict[int, Dumped] = {}
    for batch in brokerless.open(log).records(["offset", "key", "value"]):
        for row in batch.to_pylist():
            record = decode_record(topic, row["key"], row["value"])
            assert record.problem is None
            found[row["offset"]] = record.key, record.payload
    return found


@pytest.mark.parametrize("dump", DUMPS, ids=lambda dump: "-".join(dump.parts[-4:-1:2]) + "-" + dump.name[15:-9])
def test_every_record_is_decoded_as_kafkas_dump_tool_does_to_the_letter(dump: Path) -> None:
    data = Path(str(dump.parent).replace("/expected/", "/data/"))
    ours = decoded_records(data / dump.name.removesuffix(".dump.txt"))
    theirs = dumped_records(dump.read_text())
    assert ours
    assert {offset: json.dumps(said) for offset, said in ours.items()} == {
        offset: json.dumps(said) for offset, said in theirs.items()
    }
