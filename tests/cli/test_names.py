"""Names of files that are no UTF-8, or would move a terminal's cursor, and locales that know ASCII only."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data, case

TXN = broker_data("clean") / "txn-0"
ASCII = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}


def directory_named(name: bytes, parent: Path) -> Path:
    path = parent / os.fsdecode(name)
    try:
        shutil.copytree(TXN, path / "txn-0")
    except OSError:
        pytest.skip("such a name is not possible here")
    return path


@pytest.mark.parametrize(
    "arguments", [["ls", "--segments"], ["batches"], ["cat"], ["cat", "--control", "--tail", "9"], ["verify"]]
)
def test_a_path_that_is_no_utf_8_is_escaped(run: Run, tmp_path: Path, arguments: list[str]) -> None:
    path = directory_named(b"a\xff", tmp_path)
    text = run(*arguments, path)
    assert (text.exit_code, text.err) == (0, "")
    assert text.out.decode()
    lines = run(*arguments, "--json", path)
    assert (lines.exit_code, lines.err) == (0, "")
    parent = rf"{tmp_path}/a\xff/txn-0/"
    assert all(line["file"].startswith(parent) for line in lines.json)
    assert bool(lines.json) == (arguments != ["verify"])


def test_control_characters_in_a_path_are_escaped(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a\n\x1b[31m"
    try:
        path.mkdir()
    except OSError:
        pytest.skip("such a name is not possible here")
    shutil.copy(case("damaged/all-crcs-wrong").log, path / "00000000000000000000.log")
    shown = rf"{tmp_path}/a\n\x1b[31m"
    for command in ("ls", "cat", "batches", "verify"):
        result = run(command, path / "00000000000000000000.log", path / "nowhere")
        assert result.exit_code == 2
        assert "\x1b" not in result.out.decode() + result.err
        assert all(line.startswith(shown) for line in result.err.splitlines())
        assert f"{shown}/nowhere: " in result.err
        # verify shows files from the path on that was given, and cat shows none
        assert command in ("cat", "verify") or shown in result.out.decode()


def test_output_is_utf_8_where_the_locale_is_ascii(tmp_path: Path) -> None:
    path = directory_named("grüße".encode(), tmp_path)

    program = """
import sys
from brokerless.cli import main
for arguments in sys.argv[2:]:
    assert main([*arguments.split(), sys.argv[1]]) == 0
    sys.stdout.flush()
    sys.stdout.buffer.write(b"\\0")
"""
    commands = ["cat -n 2 -f grüße", "cat -n 1 --json", "batches", "ls --segments", "cat --help"]
    command = [sys.executable, "-c", program, path, *commands]
    result = subprocess.run(command, capture_output=True, timeout=60, env=os.environ | ASCII)
    assert (result.returncode, result.stderr) == (0, b"")
    cat, line, batches, ls, text, _ = result.stdout.split(b"\0")
    assert cat == "grüßegrüße".encode()
    assert json.loads(line)["file"].startswith(f"{path}/txn-0/")
    assert batches.startswith(f"{path}/txn-0/".encode())
    assert f"{path}/txn-0/".encode() in ls
    assert b"examples:" in text
