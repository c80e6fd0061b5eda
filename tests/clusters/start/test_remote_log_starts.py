"""Which log starts of tiered partitions a start moves; ``tests/kafka/test_remote_start.py`` asks brokers."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.internals.remote.metadata import broker_directory

import brokerless
from brokerless.clusters.start.remote_log_starts import LoadedLog, RemoteLogStart, log_start_line, remote_log_starts
from brokerless.internals.remote.storage import RemoteLogSegment, RemoteStorage

TOPICS = {"T" * 22: "orders", "M" * 22: "__remote_log_metadata"}
KEY = ("T" * 22, 0)


def moved(log: LoadedLog, *segments: RemoteLogSegment, metadata_on: int = 1) -> list[RemoteLogStart]:
    storage = RemoteStorage({"T" * 22: "orders"}, {}, True, {KEY: segments})
    row: dict[str, Any] = {"replicas": [1], "isr": [1], "leaderEpoch": 1}
    of_metadata = {"replicas": [metadata_on], "isr": [metadata_on], "leaderEpoch": 0}
    rows = {KEY: row, ("M" * 22, 0): of_metadata}
    return list(remote_log_starts(storage, TOPICS, rows, 1, {("orders", 0): log}))


def test_a_log_without_known_remote_segments_begins_with_what_is_local() -> None:
    found = moved(LoadedLog(0, 655, ((0, 0), (3, 500))))
    assert found == [RemoteLogStart("orders", 0, 0, 655)]
    assert log_start_line(found).startswith("this start would move the log start of a tiered partition (orders-0 ")


def test_a_log_begins_with_the_first_remote_segment_of_its_first_epoch() -> None:
    segments = RemoteLogSegment("b", 200, 299, 9, (0,)), RemoteLogSegment("a", 100, 199, 9, (0,))
    assert moved(LoadedLog(0, 655, ((0, 0),)), *segments) == [RemoteLogStart("orders", 0, 0, 100)]
    assert moved(LoadedLog(212, 655, ((0, 0),)), *segments) == []
    assert moved(LoadedLog(0, 655, ((1, 0),)), *segments) == [RemoteLogStart("orders", 0, 0, 655)]


def test_nothing_is_said_where_another_node_has_the_events() -> None:
    assert moved(LoadedLog(0, 655, ((0, 0),)), metadata_on=2) == []


def test_a_tiered_log_begins_in_remote_storage_after_a_start(tmp_path: Path) -> None:
    """And where its remote segments are not known any more, on the disk."""
    data = broker_directory("plain", tmp_path / "data")
    expected = {"epochs": (0, 349), "trimmed": (212, 700), "append-time": (0, 420)}

    def limits() -> dict[str | None, tuple[int, int]]:
        restarts = brokerless.open(data).restart().partitions
        return {each.topic: (each.log_start_offset, each.log_end_offset) for each in restarts if each.topic in expected}

    assert limits() == expected
    alone = brokerless.open(data / "epochs-0").restart()
    assert [each.log_start_offset for each in alone.partitions] == [0]
    for each in data.glob("__remote_log_metadata-*"):
        shutil.rmtree(each)
        each.mkdir()
        (each / f"{0:020}.log").touch()
    assert limits()["epochs"] == (324, 349)
