"""A segment whose offsets are too far apart becomes several; what a broker makes is in tests/kafka."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.log.odd_logs import ODD_LOGS, write_odd_log

from brokerless.errors import UnreadableError
from brokerless.log.recovery.split import split_segment

OVERFLOWING = [each for each in ODD_LOGS if each.startswith("overflow")]


@pytest.mark.parametrize("name", OVERFLOWING)
def test_every_byte_is_in_one_of_the_segments(name: str, tmp_path: Path) -> None:
    directory = write_odd_log(name, tmp_path)
    whole, index = directory / f"{0:020}.log", directory / f"{0:020}.index"
    data = whole.read_bytes()
    index.write_bytes(bytes(8))
    split_segment(directory, 0)
    parts = [each for each in sorted(directory.glob("*.log")) if int(each.stem) < 5_000_000_100]
    assert [int(each.stem) for each in parts] == [0, 3_000_000_000]
    assert b"".join(each.read_bytes() for each in parts) == data
    assert not index.exists()


@pytest.mark.parametrize("name", OVERFLOWING)
def test_one_that_ends_within_a_batch_is_refused_and_stays(name: str, tmp_path: Path) -> None:
    log = write_odd_log(name, tmp_path) / f"{0:020}.log"
    log.write_bytes(data := log.read_bytes()[:-1])
    with pytest.raises(UnreadableError, match="Kafka refuses to load"):
        split_segment(log.parent, 0)
    assert log.read_bytes() == data
