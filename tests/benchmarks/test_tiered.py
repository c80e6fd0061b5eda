"""The workloads of tiered storage run, and say how many requests there were; no figure is judged."""

from __future__ import annotations

import json
from pathlib import Path

import benchmarks.__main__ as program
import pytest
from benchmarks.object_server import serving

from benchmarks import data, object_server, scale, tiered
from tests.benchmarks.test_benchmarks import RECORDS, small
from tests.examples import some_quick
from tests.log.tiered import golden

_ = small


@pytest.fixture
def few(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiered, "DELAY", 0)
    monkeypatch.setattr(tiered, "PLANNED", 60)
    monkeypatch.setattr(tiered, "SEGMENT", 40_000)


WORKLOADS = [
    "tiered-plain-lz4",
    "tiered-zstd-encrypted",
    "tiered-s3-plain-lz4",
    "tiered-s3-zstd-encrypted-none",
    "tiered-s3-look-up-zstd-encrypted",
    "tiered-s3-plan",
]


@pytest.mark.parametrize("name", some_quick(WORKLOADS, len(WORKLOADS), "servers and programs of their own"))
def test_a_workload_gives_its_line(name: str, few: None, capfd: pytest.CaptureFixture[str]) -> None:
    assert program.main(["--only", name, "--records", str(RECORDS), "--runs", "1"]) == 0
    line = json.loads(capfd.readouterr().out)
    assert line["name"] == name
    assert line["ratio"] > 0
    if "s3" in name:
        assert line["oursFacts"]["GetObject"] >= 1
    else:
        assert ("floorShare" in line) is ("plain" not in name)


def test_the_server_answers_as_a_store_does(tmp_path: Path) -> None:
    import fsspec

    (tmp_path / "a-1" / "0").mkdir(parents=True)
    (tmp_path / "a-1" / "0" / "x&y.log").write_bytes(bytes(range(200)))
    (tmp_path / "a-1" / "z").write_bytes(b"z")
    with serving(tmp_path, 0) as server:
        fs = fsspec.filesystem("s3", **server.options)
        assert sorted(fs.ls("bucket/a-1", detail=False)) == ["bucket/a-1/0", "bucket/a-1/z"]
        assert fs.find("bucket") == ["bucket/a-1/0/x&y.log", "bucket/a-1/z"]
        assert fs.info("bucket/a-1/0/x&y.log")["size"] == 200
        server.requests()
        assert fs.cat_file("bucket/a-1/0/x&y.log", start=10, end=20) == bytes(range(10, 20))
        assert fs.cat_file("bucket/a-1/z") == b"z"
        assert server.requests() == {"GetObject": 2, "HeadObject": 1, "bytes": 11}
        with pytest.raises(FileNotFoundError):
            fs.cat_file("bucket/a-1/nothing", start=0, end=5)
        assert not fs.exists("bucket/nothing")


def test_a_bucket_is_read_from_the_server_as_from_the_disk() -> None:
    import brokerless

    path = golden() / "plain" / "bucket"
    with serving(path, 0) as server:
        remote = brokerless.open(server.url, storage_options=server.options)
        assert [each.path.partition("::")[0] for each in remote] == [
            each.path.partition("::")[0] for each in brokerless.open(path)
        ]
        assert sum(each.num_rows for each in remote.records()) == sum(
            each.num_rows for each in brokerless.open(path).records()
        )


def test_many_segments_are_as_many_in_a_bucket(few: None) -> None:
    path = tiered.many_segments()
    assert path.is_relative_to(data.CACHE)
    logs, objects = list((path / "log").rglob("*.log")), list((path / "bucket").rglob("*.log"))
    assert len(logs) == len(objects) >= 60
    assert scale.DEEP
    assert object_server.BUCKET
