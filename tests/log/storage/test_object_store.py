"""An object is there when it is whole; one that is there already is never replaced by creating it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.s3 import S3

from brokerless.errors import UnwritableError
from brokerless.log.storage.location import Location
from brokerless.log.storage.object_store import create_object, new_object

pytestmark = pytest.mark.xdist_group("s3")


@pytest.fixture(params=["directory", "memory", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Location:
    if request.param == "s3":
        s3: S3 = request.getfixturevalue("s3")
        return Location(s3.url("objects"), s3.storage_options)
    return Location(str(tmp_path / "new") if request.param == "directory" else f"memory://{tmp_path.name}")


def test_an_object_is_created_once(place: Location) -> None:
    assert create_object(place / "one", b"first")
    assert not create_object(place / "one", b"second")
    assert (place / "one").read(10) == b"first"
    assert [each.name for each in place.entries()] == ["one"]


def test_a_new_object_takes_the_place_of_another_when_it_is_whole(place: Location) -> None:
    for text in (b"first", b"second"):
        with new_object(place / "inner" / "other") as file:
            file.write(text)
        assert (place / "inner" / "other").read(10) == text


def test_an_error_of_a_directory_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UnwritableError, match=f"{tmp_path}/file"):
        create_object(Location(str(tmp_path / "file" / "one")), b"")
