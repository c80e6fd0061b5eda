"""Oracle: a snapshot that a broker wrote, damaged at every byte."""

from __future__ import annotations

from pathlib import Path

from tests.golden import broker_data

from brokerless.log.producer.snapshot import load_producer_snapshot
from brokerless.log.storage.location import Location

TXN_SNAPSHOT = broker_data("clean") / "_.dots-and_under.scores-0-0" / "00000000000000000005.snapshot"


def test_every_flipped_byte_of_a_producer_snapshot_is_detected(tmp_path: Path) -> None:
    good = TXN_SNAPSHOT.read_bytes()
    path = tmp_path / TXN_SNAPSHOT.name
    for at in range(len(good)):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x40]) + good[at + 1 :])
        read = load_producer_snapshot(Location(str(path)))
        assert len(read.producer_ids) == 0
        assert [(each.severity, each.kind) for each in read.findings] == [("error", "producer-snapshot-corrupt")]


def test_every_cut_of_a_producer_snapshot_is_detected(tmp_path: Path) -> None:
    good = TXN_SNAPSHOT.read_bytes()
    path = tmp_path / TXN_SNAPSHOT.name
    for size in range(len(good)):
        path.write_bytes(good[:size])
        assert [each.kind for each in load_producer_snapshot(Location(str(path))).findings] == [
            "producer-snapshot-corrupt"
        ]


def test_sequences_of_a_snapshot_wrap_around(tmp_path: Path) -> None:
    snapshot = load_producer_snapshot(Location(str(TXN_SNAPSHOT)))
    snapshot.last_sequences[:] = 1
    assert snapshot.first_sequences.tolist() == [2**31 - 3]  # 5 records: 2147483645, ..6, ..7, 0, 1
