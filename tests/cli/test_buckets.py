"""Commands on buckets of tiered storage: from S3 as from a directory, and with a log directory as one log."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.internals.remote.metadata import broker_directory
from tests.log.tiered import cases, golden, key_pairs, rows_of, summary_of
from tests.log.tiered.test_bucket import split
from tests.s3 import S3

import brokerless

pytestmark = pytest.mark.xdist_group("s3")

KEYS = [text for name, file in key_pairs().items() for text in ("--key-pair", f"{name}={file}")]


@pytest.fixture(scope="module")
def url(s3: S3) -> str:
    return s3.upload(golden() / "encrypted" / "bucket", "tiered/encrypted")


@pytest.mark.parametrize(
    "arguments",
    [["ls", "--segments", "--json"], ["cat", "--json"], ["cat", "-t", "trimmed", "--offset", "300:310"],
     ["cat", "--tail", "3"], ["verify", "--json"], ["batches", "--json"], ["audit", "--json"], ["schema"],
     ["sql", "SELECT topic, count(*) AS n FROM records GROUP BY ALL ORDER BY n, topic"]],
    ids=" ".join,
)  # fmt: skip
def test_from_s3_as_from_a_directory(arguments: list[str], run: Run, url: str) -> None:
    path = golden() / "encrypted" / "bucket"
    local, remote = run(*arguments, path, *KEYS), run(*arguments, url, *KEYS)
    assert local.exit_code == remote.exit_code == 0
    assert local.out or arguments[0] in ("verify", "audit")
    assert remote.out.replace(url.encode(), f"file://{path}".encode()) == local.out


@pytest.mark.parametrize("name", sorted({each.set for each in cases()}))
def test_a_local_directory_from_a_bucket(name: str, run: Run, tmp_path: Path) -> None:
    """What convert and export write has the same records."""
    bucket, own = golden() / name / "bucket", [each for each in cases() if each.set == name]
    assert run("convert", bucket, "--to", tmp_path / "log", "--format", "v2", *KEYS).exit_code == 0
    assert run("verify", tmp_path / "log").exit_code == 0
    log = brokerless.open(tmp_path / "log")
    for case in own:
        rows = rows_of(log.partition(case.topic, case.partition), start_offset=case.log_start)
        assert summary_of(rows) == case.expected["read_uncommitted"]["remote"]
    exported = run("export", bucket, "--to", tmp_path / "tables", "--json", *KEYS)
    assert exported.exit_code == 0
    counts = {
        (each["topic"], each["partition"]): each["records"] for each in map(json.loads, exported.out.splitlines())
    }
    for case in own:
        assert counts[case.topic, case.partition] >= case.expected["read_uncommitted"]["remote"]["records"]


@pytest.mark.parametrize("command", ["ls", "cat", "verify", "batches", "size", "schema"])
def test_local_and_remote(command: str, run: Run) -> None:
    data, bucket = golden() / "encrypted" / "data", golden() / "encrypted" / "bucket"
    result = run(command, data, "--remote", bucket, *KEYS)
    assert result.exit_code == 0
    assert result.err == ""
    if command != "schema":
        assert result.out != run(command, data, *KEYS).out


def test_wrong_options(run: Run, tmp_path: Path) -> None:
    data, bucket = golden() / "plain" / "data", golden() / "plain" / "bucket"
    (tmp_path / "empty").mkdir()
    for arguments, expected in (
        (["cat", bucket, "--key-pair", "key1"], "'key1' is not ID=FILE"),
        (["cat", bucket, "--key-pair", f"key1={tmp_path / 'none'}"], "there is no such file"),
        (["cat", bucket, "--layout", "{topic}"], "layout: {partition} has to be in it"),
        (["cat", bucket, "--remote", bucket], "has remote segments itself"),
        (["cat", data, "--remote", data], "there are no remote segments here"),
        (["cat", data, "--remote", tmp_path / "none"], "there is no such file or directory"),
        (["cat", tmp_path / "empty"], "the directory is empty"),
        (["cat", f"tiered://none-0::file://{bucket}"], "there is no such file or directory"),
        (["cat", "tiered://none-0"], "tiered://none-0: the bucket is missing"),
    ):
        result = run(*arguments)
        assert result.exit_code == 2, arguments
        assert expected in result.err, (arguments, result.err)
        assert "Traceback" not in result.err


@pytest.mark.parametrize("text", ["-----BEGIN PRIVATE KEY-----\nsecret=\n", "key1=-----BEGIN PRIVATE KEY-----\nsecret"])
def test_a_key_on_the_command_line_is_in_no_message(run: Run, text: str) -> None:
    result = run("ls", "demo/bucket", "--key-pair", text)
    assert result.exit_code == 2
    assert "write ID=FILE with the file that has it" in result.err
    assert "secret" not in result.err


@pytest.mark.parametrize(
    "arguments", [["cat", "-f", "%o %k\\n"], ["audit", "--json"], ["ls", "--json"], ["verify", "--json"]]
)
def test_local_and_remote_segments_on_s3_as_in_a_directory(
    arguments: list[str], run: Run, s3: S3, tmp_path: Path
) -> None:
    """With the states of uploads that brokers did not end."""
    url, path = s3.upload(golden() / "killed" / "bucket", "tiered/killed"), golden() / "killed" / "bucket"
    data = broker_directory("killed", tmp_path / "data")
    local, remote = (run(*arguments, data, "-t", "killed", "--remote", each) for each in (path, url))
    assert local.exit_code == remote.exit_code
    assert local.out
    assert remote.out.replace(url.encode(), b"BUCKET") == local.out.replace(f"{path}".encode(), b"BUCKET").replace(
        b"file://BUCKET", b"BUCKET"
    )


def test_several_buckets_on_s3(run: Run, s3: S3, tmp_path: Path) -> None:
    urls = [s3.upload(each, f"halves/{each.name}") for each in split("plain", tmp_path)]
    data = golden() / "plain" / "data"
    for case in (each for each in cases() if each.set == "plain"):
        chosen = ("-t", case.topic, "-p", str(case.partition), "-f", "%o\\n")
        result = run("cat", data, *chosen, *(text for url in urls for text in ("--remote", url)))
        assert result.exit_code == 0
        assert len(result.out.splitlines()) == case.expected["read_uncommitted"]["all"]["records"]
