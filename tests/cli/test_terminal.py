"""What lies on a disk never tells a terminal anything: whatever is in records and names, each view escapes it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from tests.cli.conftest import Run
from tests.cli.terminal import on_terminal
from tests.golden import broker_data, golden

CONTROLS = [*range(0x20), *range(0x7F, 0xA0), 0x61C, 0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A)]
HOSTILE = "".join(f"x{chr(code)}" for code in CONTROLS)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory whose records and names have all that a terminal may obey."""
    from brokerless.cli import main

    # In the name of a directory there are neither all of these at once (255 bytes) nor NUL and the slash.
    named = "".join(chr(code) for code in CONTROLS if code not in (0, *range(0x88, 0x9B)))
    path = tmp_path_factory.mktemp("hostile") / named
    path.mkdir()
    rows = path / "rows.jsonl"
    row = {"key": HOSTILE, "value": HOSTILE, "headers": [[HOSTILE, HOSTILE], ["\x9b", None]], "timestamp": 1}
    rows.write_text(json.dumps(row) + "\n")
    assert main(["load", str(rows), "--to", str(path / "logs"), "--topic", "orders"]) == 0
    (path / "logs" / named).mkdir()
    log = path / "logs/orders-0" / f"{0:020}.log"
    (path / "logs" / "broken-0").mkdir()
    (path / "logs" / "broken-0" / log.name).write_bytes(log.read_bytes()[:-9])
    return path / "logs"


COMMANDS: list[list[str]] = [
    ["cat"],
    ["cat", "--json"],
    ["cat", "-f", r"%t %p %o %T %k %s %h %K %S %R\n"],
    ["cat", "--tail", "1"],
    ["cat", "--redact"],
    ["ls"],
    ["ls", "--segments", "--json"],
    ["batches"],
    ["batches", "--json"],
    ["verify"],
    ["verify", "--json"],
    ["audit"],
    ["restart"],
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_view_controls_a_terminal(data: Path, command: list[str]) -> None:
    session = on_terminal(*command, data, stdout_too=True, waits=False, delay=600)
    sent = re.sub("\x1b\\[(1;31|33|36|0)m", "", session.sent.replace("\r\n", "\n"))  # colours of severities
    assert "Traceback" not in sent
    assert not {char for char in sent if ord(char) in CONTROLS} - {"\n", "\t"}
    if command[0] == "cat" and "--redact" not in command:
        assert "x\\x9b" in sent or "x\\u009b" in sent
        assert "x\\u202e" in sent
        assert "x\\x1b" in sent or "x\\u001b" in sent


def test_a_template_writes_bytes_as_they_are_where_there_is_no_terminal(data: Path, run: Run) -> None:
    assert run("cat", "-f", "%k|%s|%h", data / "orders-0").out.decode() == "|".join(
        [HOSTILE, HOSTILE, f"{HOSTILE}={HOSTILE},\x9b=NULL"]
    )
    session = on_terminal("cat", "-f", "%s", data / "orders-0", stdout_too=False, waits=False, delay=600)
    assert session.out == HOSTILE.encode()


def test_json_gives_the_very_text_that_was_there(data: Path, run: Run) -> None:
    (line,) = run("cat", "--json", data / "orders-0").out.decode().splitlines()
    found: dict[str, Any] = json.loads(line)
    assert (found["key"], found["value"]) == (HOSTILE, HOSTILE)
    assert found["headers"] == [[HOSTILE, HOSTILE], ["\x9b", None]]


@pytest.mark.parametrize("columns", [60, 80, 200])
@pytest.mark.parametrize("command", ["ls", "audit --all", "restart"])
def test_tables_fit_the_terminal(command: str, columns: int) -> None:
    def lines(*options: str) -> list[str]:
        arguments = (*command.split(), data, *options)
        return on_terminal(*arguments, stdout_too=True, columns=columns, waits=False, delay=600).screen

    data = broker_data("clean")
    narrow, wide = lines(), lines("--wide")
    head, head_of_wide = (next(line for line in each if line.startswith("partition")) for each in (narrow, wide))
    table = narrow[narrow.index(head) :]
    table = table[: next((at for at, line in enumerate(table) if not line or line.startswith("(")), None)]
    assert len(table) > 2
    assert max(map(len, table)) <= columns
    assert (head == head_of_wide) is (columns == 200)
    piped = on_terminal(*command.split(), data, stdout_too=False, columns=columns).out.decode()
    assert piped.splitlines() == wide


@pytest.mark.parametrize("command", ["verify", "explain"])
@pytest.mark.parametrize(("environment", "is_colored"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_severities_and_fields_have_colours_on_a_terminal(
    command: str, environment: dict[str, str], is_colored: bool
) -> None:
    data = golden() / "damaged" / "all-crcs-wrong"
    path = next(data.rglob("*.log")) if command == "explain" else data
    sent = on_terminal(command, path, stdout_too=True, environment=environment).sent
    assert (re.search("\x1b\\[[0-9;]+m", sent) is not None) is is_colored
    assert ("\x1b[1;31merror\x1b[0m" in sent) is (is_colored and command == "verify")
    assert is_colored or "\x1b" not in sent


def test_a_pipe_gets_no_colours() -> None:
    out = on_terminal("verify", golden() / "damaged" / "all-crcs-wrong", stdout_too=False).out
    assert b"error" in out
    assert b"\x1b" not in out
