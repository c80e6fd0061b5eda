"""All that reads logs does so from S3 as from a directory: the same output, byte for byte, but for the path."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Result, Run
from tests.golden import broker_data
from tests.jobs.exports import facts, table
from tests.s3 import S3

pytestmark = pytest.mark.xdist_group("s3")

NAMES = ("txn-1", "segments-0", "codec-lz4-0", "__consumer_offsets-1", "__transaction_state-0", "__cluster_metadata-0")


def copied(source: Path, to: Path, names: tuple[str, ...]) -> Path:
    """Some partitions of a log directory, with its own files."""
    to.mkdir()
    for path in source.iterdir():
        if path.is_file():
            shutil.copy(path, to)
        elif path.name in names:
            shutil.copytree(path, to / path.name)
    return to


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of what a broker left, and a partition with damage in its middle."""
    data = copied(broker_data("clean"), tmp_path_factory.mktemp("s3") / "data", NAMES)
    shutil.copytree(data / "codec-lz4-0", data / "damaged-0")
    log = next((data / "damaged-0").glob("*.log"))
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    return data


@pytest.fixture(scope="module")
def url(data: Path, s3: S3) -> str:
    return s3.upload(data, "data")


def alike(run: Run, data: Path, url: str, *arguments: object, path: str = "") -> Result:
    """The result of a command, which is the same on both."""
    local, remote = run(*arguments, f"{data}{path}"), run(*arguments, f"{url}{path}")
    assert remote.err.replace(url, str(data)) == local.err
    assert remote.out.replace(url.encode(), str(data).encode()) == local.out
    assert remote.exit_code == local.exit_code
    return local


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["ls"], 0), (["ls", "--segments", "--json"], 0), (["cat", "--json", "--control"], 1),
        (["cat", "--tail", "3"], 0),
        (["cat", "--isolation", "read_committed"], 1), (["cat", "-t", "segments", "--offset", "300:320"], 0),
        (["batches"], 1), (["verify"], 1), (["internals", "--json"], 0),
        (["cat", "--grep", "30", "--json"], 1), (["cat", "-t", "segments", "--decode", "-n", "3"], 0),
        (["sql", 'SELECT topic, count(*) AS n FROM records GROUP BY ALL ORDER BY n, topic'], 1),
        (["sql", 'SELECT * FROM topic.segments WHERE "offset" BETWEEN 300 AND 303', "-t", "segments", "--json"], 0),
        (["sql", 'FROM topics ORDER BY topic', "--json"], 0), (["schema"], 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_reading(arguments: list[str], exit_code: int, run: Run, data: Path, url: str) -> None:
    local = alike(run, data, url, *arguments)
    assert local.out
    assert local.exit_code == exit_code


def test_an_audit_finds_the_same_but_for_what_a_start_does(run: Run, data: Path, url: str) -> None:
    """No broker starts on an object store."""
    local, remote = run("audit", "--json", data), run("audit", "--json", url)
    assert (local.exit_code, remote.exit_code) == (1, 1)
    there = {json.dumps(json.loads(line), sort_keys=True) for line in local.out.splitlines()}
    found = {
        json.dumps(json.loads(line), sort_keys=True)
        for line in remote.out.replace(url.encode(), bytes(data)).splitlines()
    }
    assert len(found) > 30
    assert found <= there
    effects = [
        effect for row in map(json.loads, run("restart", "--json", data).out.splitlines()) for effect in row["effects"]
    ]
    of_start = {each["finding"] for each in effects}
    assert {json.loads(line)["kind"] for line in there - found} <= of_start


@pytest.mark.parametrize(
    ("path", "exit_code"),
    [("/txn-1", 0), ("/segments-0/00000000000000000000.log", 0), ("/nothing", 2), ("/meta.properties", 2)],
)
def test_paths_within(path: str, exit_code: int, run: Run, data: Path, url: str) -> None:
    assert alike(run, data, url, "cat", path=path).exit_code == exit_code


def files(directory: Path) -> dict[str, bytes]:
    found = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    return {name: content for name, content in found.items() if name != ".lock"}


@pytest.mark.parametrize(
    "command",
    [
        ["convert", "--codec", "zstd", "--isolation", "read_committed", "-t", "txn", "-t", "damaged"],
        ["convert", "--format", "v1", "-t", "codec-lz4"], ["salvage", "-t", "segments", "-t", "damaged"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_writing_logs_from_there(command: list[str], run: Run, data: Path, url: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    local = run(*command, data, "--to", out)
    expected = files(out)
    shutil.rmtree(out)
    remote = run(*command, url, "--to", out)
    assert remote.out.replace(url.encode(), str(data).encode()) == local.out
    assert remote.err.replace(url, str(data)) == local.err
    assert remote.exit_code == local.exit_code
    assert expected
    assert files(out) == expected


def test_loading_from_there(run: Run, data: Path, s3: S3, tmp_path: Path) -> None:
    source = tmp_path / "in"
    (source / "parquet").mkdir(parents=True)
    lines = run("cat", "--json", data / "segments-0", data / "txn-1")
    (source / "all.jsonl").write_bytes(lines.out)
    assert run("export", data, "-t", "segments", "-t", "txn", "--by-date", "--to", source / "parquet").exit_code == 0
    url = s3.upload(source, "load")
    for path in ("all.jsonl", "parquet", "parquet/topic=segments/date=*/*.parquet"):
        options = ["--topic", "segments"] if "*" in path else []
        local = run("load", source / path, "--to", tmp_path / "local", *options)
        remote = run("load", f"{url}/{path}", "--to", tmp_path / "remote", *options)
        assert (local.exit_code, local.err) == (0, "")
        assert remote.out.decode().replace("remote", "local") == local.out.decode()
        mine = {
            name: content for name, content in files(tmp_path / "local").items() if name.endswith((".log", "index"))
        }
        assert mine.items() <= files(tmp_path / "remote").items()
        shutil.rmtree(tmp_path / "local")
        shutil.rmtree(tmp_path / "remote")


@pytest.mark.parametrize("options", [["-t", "segments"], ["-t", "txn", "-t", "damaged", "--by-date"]], ids=" ".join)
def test_exporting_from_there_and_to_there(
    options: list[str], run: Run, data: Path, url: str, s3: S3, tmp_path: Path
) -> None:  # fmt: skip
    local = run("export", data, "--to", tmp_path / "local", *options, "--isolation", "read_committed")
    assert local.exit_code == ("damaged" in options)
    from_there = run("export", url, "--to", tmp_path / "remote", *options, "--isolation", "read_committed")
    assert from_there.out.decode().replace("remote", "local") == local.out.decode()
    assert from_there.err.replace(url, str(data)) == local.err
    assert files(tmp_path / "remote") == files(tmp_path / "local")

    target = s3.url(f"exports-of-{options[1]}")
    to_there = run("export", data, "--to", target, *options, "--isolation", "read_committed")
    assert to_there.out.decode().replace(target, str(tmp_path / "local")) == local.out.decode()
    fetched = download(s3, target, tmp_path / "fetched")
    assert files(fetched) == files(tmp_path / "local")
    again = run("export", data, "--to", target, *options, "--isolation", "read_committed")
    assert b"nothing was written" in again.out
    assert files(download(s3, target, tmp_path / "again")) == files(fetched)


def download(s3: S3, url: str, to: Path) -> Path:
    fs = s3.file_system()
    fs.invalidate_cache()
    inner = url.removeprefix("s3://")
    for path in fs.find(inner):
        target = to / path.removeprefix(f"{inner}/")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(fs.cat_file(path))
    return to


def test_an_export_to_there_goes_on_and_makes_an_interrupted_run_good(
    run: Run, data: Path, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    from brokerless.jobs.export import commit
    from brokerless.log.storage.location import Location
    from brokerless.table_formats import export_state as export_state

    source, target = tmp_path / "segments-0", s3.url("interrupted")
    shutil.copytree(data / "segments-0", source)
    logs = sorted(source.glob("*.log"))
    late = {path: path.read_bytes() for path in source.glob(f"{logs[-1].stem}.*")}
    for path in late:
        path.unlink()
    assert run("export", source, "--to", target, "--by-date").exit_code == 0
    before = table(download(s3, target, tmp_path / "first"))
    for path, content in late.items():
        path.write_bytes(content)

    def killed(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(commit.ExportCommit, "_publish", killed)
        patched.setattr(commit.ExportCommit, "end", lambda _: None)
        assert run_to_the_interrupt(source, target)
    seen = table(download(s3, target, tmp_path / "second"))
    assert len(seen) > len(before)  # objects are there before they are noted
    assert run("export", source, "--to", target, "--by-date", "--file-bytes", "3KB").exit_code == 0
    found = table(download(s3, target, tmp_path / "third"))
    run("export", source, "--to", tmp_path / "whole", "--by-date")
    assert facts(found) == facts(table(tmp_path / "whole"))
    noted = export_state.load(Location(target, s3.storage_options), "segments")
    whole = export_state.load(Location(str(tmp_path / "whole")), "segments")
    assert noted is not None
    assert whole is not None
    files = noted.partitions[0].files
    assert files == len(list((tmp_path / "third").rglob("*.parquet")))
    assert noted == replace(whole, partitions={0: replace(whole.partitions[0], files=files)})


def run_to_the_interrupt(source: Path, target: str) -> bool:
    import brokerless

    try:
        brokerless.open(source).export(target, by_date=True)
    except KeyboardInterrupt:
        return True
    return False


def test_wrong_credentials_and_missing_buckets_are_reported_in_a_line(run: Run, url: str) -> None:
    for command in (["ls", "s3://nobody-has-this/data"], ["export", url, "--to", "s3://nobody-has-this/out"]):
        result = run(*command)
        told = [line for line in result.err.splitlines() if not line.startswith("left out Kafka's own topics")]
        assert (result.exit_code, len(told)) == (2, 1), result.err
        assert told[0].removeprefix("brokerless: ").startswith("s3://nobody-has-this/")


def test_storage_options_in_python_are_what_fsspec_takes(
    s3: S3, url: str, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    import brokerless

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name)
    remote = brokerless.open(f"{url}/txn-1", storage_options=s3.storage_options)
    local = brokerless.open(data / "txn-1")
    assert json.dumps(rows(remote), default=str) == json.dumps(rows(local), default=str)
    remote.export(s3.url("python"), storage_options=s3.storage_options)
    local.export(tmp_path / "out")
    assert files(download(s3, s3.url("python"), tmp_path / "fetched")) == files(tmp_path / "out")


def rows(log: Any) -> list[dict[str, Any]]:
    return [row for part in log.records(["offset", "key", "value", "timestamp"]) for row in part.to_pylist()]
