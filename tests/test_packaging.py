"""What is for package managers and others that show or install brokerless: each says what is true."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

from tests.cli.conftest import Run
from tests.cli.conftest import run as run

ROOT = Path(__file__).parents[1]
TLDR = (ROOT / "packaging" / "tldr" / "brokerless.md").read_text()


def test_the_eight_examples_have_the_form_of_tldr() -> None:
    title, summary, *examples = TLDR.rstrip("\n").split("\n\n")
    assert title == "# brokerless"
    assert all(line.startswith("> ") and line.endswith(".") for line in summary.splitlines())
    assert len(examples) == 16
    for says, command in zip(examples[::2], examples[1::2], strict=True):
        assert re.fullmatch(r"- [A-Z].*[^.]:", says), says
        assert re.fullmatch(r"`brokerless .*`", command), command


def test_the_eight_examples_run(run: Run, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "demo" / "data", tmp_path / "log")
    values = {
        "path/to/log_directory": str(tmp_path / "log"),
        "path/to/log_directory/topic-0": str(tmp_path / "log" / "orders-0"),
        "path/to/tables": str(tmp_path / "tables"),
        "path/to/new_directory": str(tmp_path / "new"),
        "SELECT count(*) FROM topic": "SELECT count(*) FROM orders",
        "topic": "orders",
        "key": "o-101230",
        "10": "10",
    }
    commands = re.findall(r"^`brokerless (.*)`$", TLDR, re.MULTILINE)
    assert len(commands) == 8
    for command in commands:
        arguments = shlex.split(re.sub(r"\{\{(.*?)\}\}", lambda found: values[found[1]], command))
        done = run(*arguments)
        assert (done.exit_code, bool(done.out)) == (0, True), (command, done.err)
