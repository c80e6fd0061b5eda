from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.format.twin import write_batch, write_record

from brokerless.errors import UnreadableError
from brokerless.log.directory import resolve
from brokerless.log.storage.files import LocalFile
from brokerless.log.storage.location import Location
from brokerless.serving.source.bad_sectors import readable_batches, readable_end, readable_start

SECTOR = 4096


def failing(bad: int) -> Any:
    read = LocalFile.read

    def read_but_one_sector(self: LocalFile, position: int, length: int) -> Any:
        if position < bad + SECTOR and position + min(length, self.size - position) > bad:
            raise UnreadableError(self.path, "Input/output error")
        return read(self, position, length)

    return read_but_one_sector


@pytest.mark.parametrize("sector", [0, 1, 2, 100, 300])
def test_what_is_before_a_bad_sector_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sector: int) -> None:
    directory = tmp_path / "orders-0"
    directory.mkdir()
    one = len(write_batch(write_record(b"k", b"v"), base_offset=0, count=1))
    data = b"".join(write_batch(write_record(b"k", b"v"), base_offset=each, count=1) for each in range(20_000))
    (directory / f"{7:020}.log").write_bytes(data)
    (segment,) = resolve(Location(str(directory))).partitions[0].segments
    monkeypatch.setattr(LocalFile, "read", failing(sector * SECTOR))
    findings: list[Any] = []
    with segment.log.location.open() as file:
        expected = min(20_000, sector * SECTOR // one)
        if not sector:
            with pytest.raises(UnreadableError):
                list(readable_batches(file, findings.append, 0))
        else:
            chunks = list(readable_batches(file, findings.append, 0))
            assert sum(len(each.batches) for each in chunks) == expected
        assert readable_end(file, segment) == (expected if sector else 7)
    assert findings == []


def test_a_place_that_is_not_read_is_the_beginning() -> None:
    def fails() -> int:
        raise UnreadableError("file", "Input/output error")

    assert readable_start(fails) == 0
    assert readable_start(lambda: 5) == 5
