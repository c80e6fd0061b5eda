"""What is measured of a topic begins where its log does."""

from __future__ import annotations

import shutil
from pathlib import Path

import brokerless
from brokerless.jobs.size.places import places_of
from brokerless.log.directory import resolve

DEMO = Path(__file__).parents[3] / "demo" / "data"


def test_deleted_records_are_not_measured(tmp_path: Path) -> None:
    shutil.copytree(DEMO / "orders-1", tmp_path / "orders-1")
    batches = brokerless.open(DEMO / "orders-1").batches(["baseOffset", "position", "file"]).read_all().to_pylist()
    start = [each for each in batches if each["file"] == batches[20]["file"]][-1]
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\norders 1 {start['baseOffset']}\n")
    (partition,) = resolve(str(tmp_path)).partitions
    places = places_of([partition])
    assert places[0].segment.log.name == Path(start["file"]).name
    assert 0 < places[0].start <= start["position"]
    assert sum(place.size for place in places) == sum(place.segment.size for place in places) - places[0].start
    assert places[0].segment is not partition.segments[0]


def test_all_segments_of_all_partitions_are_measured() -> None:
    partitions = resolve(str(DEMO)).partitions
    places = places_of(partitions)
    assert sum(place.size for place in places if place.partition.topic == "orders") == sum(
        path.stat().st_size for path in DEMO.glob("orders-*/*.log")
    )
