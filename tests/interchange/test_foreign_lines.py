"""Lines of other tools are refused with what makes records of them; ``jq`` does it as the message says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

from tests.cli.conftest import Run, run  # noqa: F401  # pyright: ignore[reportUnusedImport]
from tests.require import require

import brokerless

KCAT: list[dict[str, Any]] = [
    {"topic": "orders", "partition": 0, "offset": number, "tstype": "create", "ts": 1_700_000_000_000 + number,
     "broker": 1, "headers": headers, "key": f"k{number}", "payload": payload}
    for number, (headers, payload) in enumerate([(["a", "1", "b", None], '{"a":0}'), ([], None)])
]  # fmt: skip
GUARDIAN: list[dict[str, Any]] = [
    {"topic": "orders", "partition": 0, "offset": number, "key": b64encode(b"k").decode(),
     "value": b64encode(b"\xff%d" % number).decode(), "timestamp": 1_700_000_000_000, "timestamp_type": 0}
    for number in range(3)
]  # fmt: skip


def lines(found: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(each) + "\n" for each in found)


def by_jq(message: str, data: str) -> str:
    """What the command of a message makes of the lines."""
    require(shutil.which("jq"), "jq")
    (program,) = re.findall(r"jq -c '(.*?)'", message)
    return subprocess.run(["jq", "-c", program], input=data, capture_output=True, text=True, check=True).stdout


def test_kcat(run: Run, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "kcat.jsonl").write_text(lines(KCAT))
    done = run("load", tmp_path / "kcat.jsonl", "--to", tmp_path / "no")
    assert done.exit_code == 2
    assert "it has topic, partition, offset, timestamp, timestampType, key, value and headers. Of kcat's" in done.err
    (tmp_path / "own.jsonl").write_text(by_jq(done.err, lines(KCAT)))
    assert run("load", tmp_path / "own.jsonl", "--to", tmp_path / "log").exit_code == 0
    columns = ["offset", "key", "value", "headers"]
    found = brokerless.open(tmp_path / "log").partition("orders", 0).records(columns).read_all().to_pylist()
    assert found == [
        {"offset": 0, "key": b"k0", "value": b'{"a":0}', "headers": [
            {"key": "a", "value": b"1"}, {"key": "b", "value": None}
        ]},
        {"offset": 1, "key": b"k1", "value": None, "headers": []},
    ]  # fmt: skip


def test_guardian(run: Run, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "array.jsonl").write_text(json.dumps([*GUARDIAN, None]))
    done = run("load", tmp_path / "array.jsonl", "--to", tmp_path / "no")
    assert "a file that is one array becomes lines by jq" in done.err
    data = by_jq(done.err, (tmp_path / "array.jsonl").read_text())
    (tmp_path / "guardian.jsonl").write_text(data)
    done = run("load", tmp_path / "guardian.jsonl", "--to", tmp_path / "no")
    assert "Of Guardian's: jq" in done.err
    (tmp_path / "own.jsonl").write_text(by_jq(done.err, data))
    assert run("load", tmp_path / "own.jsonl", "--to", tmp_path / "log", "--bytes", "base64").exit_code == 0
    found = brokerless.open(tmp_path / "log").partition("orders", 0).records(["key", "value"]).read_all().to_pylist()
    assert found == [{"key": b"k", "value": b"\xff%d" % number} for number in range(3)]


def test_others(run: Run, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "x.jsonl").write_text('{"value": "a", "x": 1}\n')
    done = run("load", tmp_path / "x.jsonl", "--to", tmp_path / "no", "--topic", "t")
    assert "a record has no 'x'; it has topic" in done.err
    assert "rename or leave out others" in done.err
