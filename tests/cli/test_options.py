"""Options that several commands share."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.format.twin import COMPRESS, write_batch, write_record
from tests.golden import broker_data, case

from brokerless.cli.commands import COMMANDS


@pytest.mark.parametrize("command", ["cat", "verify"])
def test_a_batch_that_inflates_past_the_limit_is_damage_until_a_higher_one_is_given(run: Run, command: str) -> None:
    log = case("formats/v2-gzip-create").log
    assert run(command, log).exit_code == 0
    result = run(command, "--max-batch-bytes", 100, log)
    assert result.exit_code == 1
    assert "past the limit of 100 bytes; --max-batch-bytes raises it" in result.err + result.out.decode()
    assert run(command, "--max-batch-bytes", "1MB", log).out == run(command, log).out


@pytest.mark.parametrize("command", ["ls", "batches"])
def test_a_wrapper_message_past_the_limit_is_damage_where_its_messages_are_counted(run: Run, command: str) -> None:
    log = case("formats/v1-gzip-create").log
    whole = run(command, log)
    assert whole.exit_code == 0
    result = run(command, "--max-batch-bytes", 100, log)
    assert result.exit_code == 1
    assert "past the limit of 100 bytes; --max-batch-bytes raises it" in result.err
    assert result.out != whole.out


@pytest.mark.parametrize("what", [["--history"], ["--table", "offsets"]])
def test_batches_of_internal_topics_have_the_same_limit(run: Run, what: list[str], tmp_path: Path) -> None:
    run("convert", "-t", "__consumer_offsets", "--codec", "zstd", broker_data("clean"), "--to", tmp_path / "to")
    assert run("internals", *what, tmp_path / "to").exit_code == 0
    result = run("internals", *what, "--max-batch-bytes", 100, tmp_path / "to")
    assert result.exit_code == 1
    assert "--max-batch-bytes raises it" in result.err


def test_the_limit_is_128_mib_and_32_mib_after_eight_large_batches(run: Run, tmp_path: Path) -> None:
    log = tmp_path / f"{0:020}.log"
    large = COMPRESS["zstd"](write_record(None, bytes(33 << 20)))
    log.write_bytes(b"".join(write_batch(large, base_offset=offset, attributes=4) for offset in range(8)))
    assert run("verify", log).exit_code == 0
    with log.open("ab") as file:
        file.write(write_batch(large, base_offset=8, attributes=4))
        file.write(write_batch(COMPRESS["zstd"](write_record(None, bytes(31 << 20))), base_offset=9, attributes=4))
    result = run("verify", "--json", log)
    (finding,) = result.json
    assert (result.exit_code, finding["kind"], finding["offset"]) == (1, "limit-exceeded", 8)
    assert "past the limit of 33554432 bytes, after 8 batches that did" in finding["message"]
    assert run("verify", "--max-batch-bytes", "140MiB", log).exit_code == 0
    log.write_bytes(write_batch(COMPRESS["zstd"](write_record(None, bytes(129 << 20))), attributes=4))
    assert "past the limit of 134217728 bytes; --max-batch-bytes raises it" in run("verify", log).out.decode()


@pytest.fixture
def log_directory(tmp_path: Path) -> Path:
    """A live partition, and copies of it that a broker would not serve."""
    for suffix in ("", f".{'0' * 32}-delete", f".{'0' * 32}-future", f".{'0' * 32}-stray"):
        shutil.copytree(broker_data("clean") / "txn-0", tmp_path / f"txn-0{suffix}")
    return tmp_path


def test_partitions_that_a_broker_does_not_serve_are_included_where_asked_for(run: Run, log_directory: Path) -> None:
    def states(*include: str) -> list[str]:
        return sorted(row["state"] for row in run("ls", "--json", *include, log_directory).json)

    assert states() == ["live"]
    assert states("--include", "stray") == ["live", "stray"]
    assert states("--include", "future,delete") == ["delete", "future", "live"]
    for command in ("cat", "batches"):
        once = len(run(command, "--json", log_directory).json)
        assert len(run(command, "--json", "--include", "future,delete,stray", log_directory).json) == 4 * once > 0
    assert run("verify", "--include", "delete", log_directory).exit_code == 0


def test_a_state_that_there_is_not_is_refused_with_those_that_there_are(run: Run, log_directory: Path) -> None:
    result = run("ls", "--include", "gone", log_directory)
    assert (result.exit_code, result.out) == (2, b"")
    assert "there are future, delete, stray" in result.err


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_what_writes_elsewhere_or_applies_has_a_dry_run(run: Run, name: str) -> None:
    options = run(name, "--help").out.decode().partition("\noptions:")[2]
    if ("--to " in options or "--apply" in options) and name != "pipeline":  # of which export --dry-run tells
        assert "--dry-run" in options


@pytest.mark.parametrize(
    "line", [["trim", "x"], ["rebuild", "x", "--to", "y"], ["restore", "x", "--to", "y"]], ids=lambda line: line[0]
)
def test_apply_and_dry_run_exclude_each_other(run: Run, line: list[str]) -> None:
    result = run(*line, "--apply", "--dry-run")
    assert result.exit_code == 2
    assert "--dry-run and --apply exclude each other; use one of them" in result.err
