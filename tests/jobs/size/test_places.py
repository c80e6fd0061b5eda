"""What is measured of a topic begins where its log does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import brokerless
from brokerless.jobs.size.choices import choices_of
from brokerless.jobs.size.job import SizeSettings, size
from brokerless.jobs.size.places import places_of
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location

DEMO = Path(__file__).parents[3] / "demo" / "data"


def test_deleted_records_are_not_measured(tmp_path: Path) -> None:
    shutil.copytree(DEMO / "orders-1", tmp_path / "orders-1")
    batches = brokerless.open(DEMO / "orders-1").batches(["baseOffset", "position", "file"]).read_all().to_pylist()
    start = [each for each in batches if each["file"] == batches[20]["file"]][-1]
    (tmp_path / "log-start-offset-checkpoint").write_text(f"0\n1\norders 1 {start['baseOffset']}\n")
    (partition,) = resolve(Location(str(tmp_path))).partitions
    places = places_of([partition])
    assert places[0].segment.log.name == Path(start["file"]).name
    assert 0 < places[0].start <= start["position"]
    assert sum(place.size for place in places) == sum(place.segment.size for place in places) - places[0].start
    assert places[0].segment is not partition.segments[0]


def test_all_segments_of_all_partitions_are_measured() -> None:
    partitions = resolve(Location(str(DEMO))).partitions
    places = places_of(partitions)
    assert sum(place.size for place in places if place.partition.topic == "orders") == sum(
        path.stat().st_size for path in DEMO.glob("orders-*/*.log")
    )


@pytest.mark.parametrize("has_index", [True, False])
@pytest.mark.parametrize("share", [None, 0.04])
def test_the_zeros_of_a_preallocated_file_are_not_measured(
    has_index: bool, share: float | None, tmp_path: Path
) -> None:
    """As ``log.preallocate`` leaves them when a broker is killed: the sizes are those of the file without them."""
    shutil.copytree(DEMO / "users-0", tmp_path / "users-0")
    last = max((tmp_path / "users-0").glob("*.log"))
    if not has_index:
        last.with_suffix(".index").unlink()
    choices = tuple(choices_of([2], ["none", "zstd"], [], [100], []))
    (expected,) = size(resolve(Location(str(tmp_path))).partitions, SizeSettings(choices, share))
    with last.open("ab") as file:
        file.truncate(20 << 20)
    (found,) = size(resolve(Location(str(tmp_path))).partitions, SizeSettings(choices, share))
    assert (found.bytes, found.records, found.sizes) == (expected.bytes, expected.records, expected.sizes)
    assert [(each.kind, each.position) for each in found.findings] == [
        ("zero-tail", expected.bytes - sum(path.stat().st_size for path in last.parent.glob("*.log") if path != last))
    ]
