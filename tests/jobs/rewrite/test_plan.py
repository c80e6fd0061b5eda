from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.golden import broker_data
from tests.sources import sources_of

from brokerless.errors import UsageError
from brokerless.jobs.rewrite.plan import by_target
from brokerless.log.storage.location import Location


@pytest.fixture
def disks(tmp_path: Path) -> Path:
    """``b1``, ``b2``, ``b1/data`` and ``b2/data``: log directories with one partition each."""
    for name in ("b1", "b2", "b3/data", "b4/data", "b5/kafka/data"):
        shutil.copytree(broker_data("clean") / "txn-0", tmp_path / name / "txn-0")
    return tmp_path


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["b1"], [""]),
        (["b1", "b2"], ["b1", "b2"]),
        (["b1", "b3/data"], ["b1", "data"]),
        (["b3/data", "b4/data", "b1"], ["b3/data", "b4/data"]),
        (["b3/data", "b5/kafka/data"], ["b3/data", "kafka/data"]),
        (["b1/txn-0"], [""]),
        (["b1/txn-0", "b2"], [""]),
    ],
)
def test_several_log_directories_get_one_each_with_as_much_of_their_paths_as_it_takes(
    paths: list[str], names: list[str], disks: Path, tmp_path: Path
) -> None:
    found = list(by_target(sources_of(*(disks / each for each in paths)), Location(str(tmp_path / "to"))))
    expected = [*names, f"{tmp_path.name}/b1"] if "b1" in paths[2:] else names
    assert [each.prefix.rstrip("/") for each in found] == expected
    assert [each.directory.path for each in found] == [str(tmp_path / "to" / name) for name in expected]
    assert [log.path for each in found for log in each.logs] == [str(disks / each) for each in paths]


def test_a_log_directory_that_is_given_twice_is_refused(disks: Path, tmp_path: Path) -> None:
    for other in (disks / "b1", f"{disks}/b1/", os.path.relpath(disks / "b1")):
        with pytest.raises(UsageError, match="is given twice"):
            list(by_target(sources_of(disks / "b1", other), Location(str(tmp_path / "to"))))


def test_nothing_is_written_into_what_is_read(disks: Path) -> None:
    with pytest.raises(UsageError, match="is within"):
        list(by_target(sources_of(disks / "b1", disks / "b2"), Location(str(disks / "b2"))))
    with pytest.raises(UsageError, match="is within"):
        list(by_target(sources_of(disks / "b1", disks / "b2"), Location(str(disks))))
