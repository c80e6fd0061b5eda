"""Logs are written to S3 as to a directory: the same files, all of a commit or nothing, whatever is interrupted."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.cli.test_s3 import data, download, files, url  # noqa: F401 - fixtures
from tests.s3 import S3

import brokerless
from brokerless.errors import UnwritableError
from brokerless.log import names
from brokerless.log.names import UNFINISHED

pytestmark = pytest.mark.xdist_group("s3")

CONVERT = ["convert", "--codec", "zstd"]
CHANGES = ("put_object", "copy_object", "delete_object", "delete_objects", "complete_multipart_upload")
"""The calls that change what there is in a bucket."""


def comparable(found: dict[str, bytes]) -> dict[str, bytes]:
    """Without our own lock, which is there for disks only, and what differs from run to run: IDs of topics."""
    return {
        name: re.sub(rb"topic_id: \S+", b"", content) if name.endswith(names.PARTITION_METADATA) else content
        for name, content in found.items()
        if name != names.COMMIT_LOCK
    }


@pytest.mark.parametrize(
    "command",
    [
        [*CONVERT, "-t", "txn", "-t", "segments", "-t", "damaged", "--isolation", "read_committed"],
        ["salvage", "-t", "segments", "-t", "damaged"],
        ["merge", "-t", "segments", "-t", "txn"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands_write_there_what_they_write_on_a_disk(
    command: list[str], run: Run, data: Path, s3: S3, tmp_path: Path  # noqa: F811
) -> None:  # fmt: skip
    out, target = tmp_path / "out", s3.url(f"commands/{command[0]}")
    local, remote = run(*command, data, "--to", out), run(*command, data, "--to", target)
    assert remote.out.decode().replace(target, str(out)) == local.out.decode()
    assert remote.err.replace(target, str(out)) == local.err
    assert remote.exit_code == local.exit_code
    fetched = download(s3, target, tmp_path / "fetched")
    assert comparable(files(fetched)) == comparable(files(out))
    assert {*files(fetched)} & {names.CLEAN_SHUTDOWN, names.RECOVERY_POINT_CHECKPOINT} != set()
    # From there, it is read as what was downloaded.
    expected = run("cat", "--json", fetched)
    assert run("cat", "--json", target).out.decode() == expected.out.decode().replace(str(fetched), target)
    assert expected.out
    refused = run(*command, data, "--to", target)
    assert refused.exit_code == 2
    assert "exists already" in refused.err
    assert files(download(s3, target, tmp_path / "again")) == files(fetched)


def test_salvage_writes_tables_there_as_on_a_disk(run: Run, data: Path, s3: S3, tmp_path: Path) -> None:  # noqa: F811
    command = ["salvage", "--as", "parquet", "-t", "segments", "-t", "damaged", data, "--to"]
    target = s3.url("tables")
    local, remote = run(*command, tmp_path / "out"), run(*command, target)
    assert remote.out.decode().replace(target, str(tmp_path / "out")) == local.out.decode()
    written = files(tmp_path / "out")
    assert files(download(s3, target, tmp_path / "fetched")) == written
    assert any(name.endswith(".parquet") for name in written)
    assert "is in it already" in run(*command, target).err


def rows(path: Path, count: int) -> Path:
    path.write_text("".join(f'{{"key": "k{row % 7}", "value": "{row:0100}"}}\n' for row in range(count)))
    return path


def test_load_writes_there_what_it_writes_on_a_disk(run: Run, s3: S3, tmp_path: Path) -> None:
    lines = rows(tmp_path / "rows.jsonl", 2000)
    out, target = tmp_path / "out", s3.url("loaded/deep")
    for topic in ("one", "other"):  # the second one joins the first
        more = ["-t", topic, "--codec", "lz4", "--timestamp", 1, "--partitions", "3", "--segment-bytes", "16KiB"]
        local, remote = (run("load", lines, "--to", to, *more) for to in (out, f"{target}/"))
        assert (local.exit_code, local.err) == (0, "")
        assert remote.out.decode().replace(f"{target}/", str(out)) == local.out.decode()
    fetched = download(s3, target, tmp_path / "fetched")
    assert comparable(files(fetched)) == comparable(files(out))
    assert len([*fetched.glob("one-*/*.log")]) > 2
    assert run("verify", target).exit_code == 0


def test_a_manifest_says_what_is_there_and_how_to_go_on(run: Run, data: Path, s3: S3, tmp_path: Path) -> None:  # noqa: F811
    target = s3.url("noted")
    command = [*CONVERT, data, "--to", target, "--manifest", tmp_path / "manifest.jsonl"]
    assert run(*command, "-t", "segments").exit_code == 0
    again = run(*command, "-t", "segments", "-t", "txn")
    assert again.exit_code == 0
    assert "1 of 2 partitions are done" in again.err
    noted = re.findall(r'"path":"([^"]*)"', (tmp_path / "manifest.jsonl").read_text())
    written = {f"{target}/{name}" for name in files(download(s3, target, tmp_path / "fetched")) if "/" in name}
    assert {path for path in noted if path.startswith("s3:")} == written


class KilledError(OSError):
    """What a process meets in our place of its end: from one call on, nothing changes any more."""


@contextmanager
def killed_before(change: str, number: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets all through before the call with that name and number (from 0), and nothing that changes the bucket after
    that, not what would tidy up either."""
    import s3fs

    seen: list[str] = []
    call = s3fs.S3FileSystem._call_s3

    async def limited(self: Any, method: str, *arguments: Any, **more: Any) -> Any:
        if method in CHANGES:
            if seen.count(change) > number or (method == change and seen.count(change) == number):
                seen.append(change)
                raise KilledError(f"the process was killed before {method}")
            seen.append(method)
        return await call(self, method, *arguments, **more)

    with monkeypatch.context() as patched:
        patched.setattr(s3fs.S3FileSystem, "_call_s3", limited)
        yield


@pytest.mark.parametrize(
    ("change", "number"), [("put_object", 5), ("copy_object", 0), ("copy_object", 9), ("delete_object", 1)]
)
def test_a_kill_leaves_all_or_nothing_and_the_next_run_makes_it_good(
    change: str, number: int, run: Run, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    """Every single call is in tests/log/storage/test_destination.py."""
    target = s3.url(f"killed/{change}{number}")
    command = ["load", rows(tmp_path / "rows.jsonl", 40), "-t", "both", "--partitions", "2", "--timestamp", 1]
    run(*command, "--to", tmp_path / "out")
    with killed_before(change, number, monkeypatch):
        assert run(*command, "--to", target).exit_code == 2
    assert run("cat", target).out == b""
    assert run(*command, "--to", target).exit_code == 0
    assert comparable(files(download(s3, target, tmp_path / "fetched"))) == comparable(files(tmp_path / "out"))


def test_what_is_not_ours_stays(run: Run, data: Path, s3: S3) -> None:  # noqa: F811
    fs, target = s3.file_system(), "kept"
    uniques = ("f" * 32, "0" * 24 + UNFINISHED)
    foreign, ours = (f"{s3.bucket}/{target}/orders-0.{unique}-delete/a.log" for unique in uniques)
    for path in (foreign, ours):
        fs.pipe_file(path, b"x")
    assert run(*CONVERT, data, "-t", "txn", "--to", s3.url(target)).exit_code == 0
    fs.invalidate_cache()
    assert (fs.exists(foreign), fs.exists(ours)) == (True, False)


def test_what_cannot_be_written_is_reported_beforehand(run: Run, data: Path, url: str) -> None:  # noqa: F811
    for to, reason in (("s3://nobody-has-this/out", "s3://nobody-has-this/out/"), ("zip://a::x.zip", "archive")):
        result = run(*CONVERT, data, "--to", to)
        assert (result.exit_code, result.err.count("\n")) == (2, 1), result.err
        assert reason in result.err
    within = run(*CONVERT, url, "--to", f"{url}/out")
    assert within.exit_code == 2
    assert f"is within {url}" in within.err


def test_storage_options_in_python_are_what_fsspec_takes(
    s3: S3, data: Path, monkeypatch: pytest.MonkeyPatch  # noqa: F811
) -> None:  # fmt: skip
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    target = s3.url("python-converted")
    (result,) = brokerless.open(data / "txn-1").convert(target, codec="gzip", storage_options=s3.storage_options)
    assert result.as_dict()["target"] == f"{target}/txn-1"
    assert s3.storage_options["secret"] not in repr(result)
    there = brokerless.open(target, storage_options=s3.storage_options)
    assert sum(batch.num_rows for batch in there.records(["offset"])) > 0
    with pytest.raises(UnwritableError):
        brokerless.open(data / "txn-1").convert("s3://nobody-has-this/x", codec="gzip")


def test_names_in_an_export_lead_nowhere_else(run: Run, data: Path, s3: S3) -> None:  # noqa: F811
    """Neither a manifest nor the names of objects make an export write, or remove, what is not its own."""
    fs, target = s3.file_system(), s3.url("attacked/target")
    root = f"{s3.bucket}/attacked"
    arguments = ["export", data, "--to", target, "-t", "segments"]
    assert run(*arguments).exit_code == 0
    path = f"{root}/target/topic=segments/_brokerless.json"
    noted = json.loads(fs.cat_file(path))
    file = f"partition-0-{0:020}.parquet"
    victims = [
        f"{root}/victim/topic=segments/{file}",
        f"{root}/target/topic=other/{file}",
        f"{root}/target/topic=segments2/{file}",
        f"{root}/target/topic=segments/inner/{file}",
        f"{root}/target/topic=segments/inner/date=2024-01-01/{file}",
    ]
    for victim in victims:
        fs.pipe_file(victim, b"precious")
    every = {"0": {"nextOffset": 0, "until": 1 << 62}}
    hostile = [
        {**noted, "topic": "../../victim/topic=segments"},
        {**noted, "topic": "other", "partitions": every},
        {**noted, "partitions": {"../0": {"nextOffset": 0}}},
        {**noted, "partitions": {"0": {"nextOffset": "0"}}},
        {**noted, "partitions": every},  # as of a killed run: all files of the partition are written again
    ]
    for manifest in hostile:
        before = {each for each in fs.find(root) if "/target/topic=segments/" not in each}
        fs.pipe_file(path, json.dumps(manifest).encode())
        result = run(*arguments)
        assert result.exit_code == (0 if manifest is hostile[-1] else 2), result.err
        assert "Traceback" not in result.err
        fs.invalidate_cache()
        assert {each for each in fs.find(root) if "/target/topic=segments/" not in each} == before
        assert all(fs.cat_file(victim) == b"precious" for victim in victims)


def test_what_is_erased_there_is_what_is_erased_on_a_disk(run: Run, data: Path, s3: S3, tmp_path: Path) -> None:  # noqa: F811
    """From a bucket into it, with a proof; and a partition that is gone is written again by the same command."""
    source, target = s3.upload(data, "erased/from"), s3.url("erased/to")
    manifest = tmp_path / "remote.json"
    how = ["-t", "segments", "-t", "txn", "--where", '"offset" % 7 < 3']
    local = run("erase", data, *how, "--to", tmp_path / "out", "--manifest", tmp_path / "local.json")
    remote = run("erase", source, *how, "--to", target, "--manifest", manifest)
    assert (remote.exit_code, remote.err) == (0, local.err)
    fetched = download(s3, target, tmp_path / "fetched")
    assert comparable(files(fetched)) == comparable(files(tmp_path / "out"))
    assert run("prove", manifest).exit_code == 0
    assert run("prove", manifest, "--source", source, *how[4:]).exit_code == 1
    assert run("prove", manifest, "--source", source, *how[4:], "--only", "txn", "--only", "segments").exit_code == 0
    assert run("prove", manifest, "--erased", fetched, "--source", data).exit_code == 0
    again = run("erase", source, *how, "--to", target, "--manifest", manifest)
    assert again.exit_code == 0
    assert "2 partitions done before" in again.err
    for name in files(fetched):
        if name.startswith("txn-"):
            s3.file_system().rm(f"{target}/{name}")
    assert run("prove", manifest).exit_code == 1
    assert run("erase", source, *how, "--to", target, "--manifest", manifest).exit_code == 0
    assert run("prove", manifest, "--source", source).exit_code == 0
    refused = run("erase", source, *how, "--to", s3.url("erased/other"))
    assert refused.exit_code == 2
    assert "use --manifest FILE" in refused.err
