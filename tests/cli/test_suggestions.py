"""Old spellings are answered with the new command line, and that command line works."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data

from brokerless.cli.suggestions import did_you_mean, new_spelling

LOG = broker_data("clean") / "txn-0" / f"{0:020}.log"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("audit --restart PATH", "restart PATH"),
        ("audit PATH --json --restart -t orders", "restart PATH --json -t orders"),
        ("audit --restart --spark local[2] --max-batch-bytes=1GiB PATH", "restart PATH"),
        ("salvage --carve disk.img --to x --spark=none", "carve disk.img --to x"),
        (r"cat --format '%o %k\n' a b", r"cat --template '%o %k\n' a b"),
        ("cat --format=%s a", "cat --template=%s a"),
        ("export --to x --codec snappy a", "export --to x --compression snappy a"),
        ("audit --restart -- -odd", "restart -- -odd"),
    ],
)
def test_an_old_spelling_is_answered_with_the_new_one(run: Run, old: str, new: str) -> None:
    result = run(*shlex.split(old))
    assert (result.exit_code, result.out) == (2, b"")
    command = old.split()[0]
    assert result.err == f"brokerless {command}: this is spelled differently now; use: brokerless {new}\n"


@pytest.mark.parametrize(
    "old", ["audit --restart {path}", "cat --format %o {path}", "export --codec gzip {path} --to {to}"]
)
def test_the_new_spelling_can_be_pasted(run: Run, tmp_path: Path, old: str) -> None:
    result = run(*(each.format(path=LOG.parent, to=tmp_path / "a b") for each in old.split()))
    _, _, new = result.err.partition("use: ")
    name, *arguments = shlex.split(new)
    assert name == "brokerless"
    assert run(*arguments).exit_code == 0


def test_other_command_lines_are_no_old_spellings() -> None:
    assert new_spelling("load", ["--codec", "zstd", "--format", "v1"]) is None
    assert new_spelling("cat", ["-f", "%o", "x", "--", "--format"]) is None


def test_the_nearest_name_is_suggested_and_an_abbreviation_before_it() -> None:
    names = ("ls", "verify", "cat", "carve", "convert", "export")
    assert did_you_mean("verfy", names) == "did you mean verify?"
    assert did_you_mean("CAT", names) == "did you mean cat?"
    assert did_you_mean("conv", names) == "did you mean convert?"
    assert did_you_mean("ca", names) == "did you mean cat or carve?"
    assert did_you_mean("something", names) == ""
