"""Lines of other tools are refused with what makes records of them; ``jq`` does it as the message says."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
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
    ((option, program),) = re.findall(r"jq (-\w+) '(.*?)'", message)
    return subprocess.run(["jq", option, program], input=data, capture_output=True, text=True, check=True).stdout


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


@pytest.mark.parametrize(
    "data",
    [
        'CreateTime:1700000000000\tPartition:0\tOffset:0\tk0\t{"a":0}\tb\n'
        "CreateTime:1700000000002\tPartition:0\tOffset:1\tnull\tnull\n",
        'CreateTime:1700000000000\tPartition:0\tOffset:0\tEpoch:NOT_PRESENT\tNO_HEADERS\tk0\t{"a":0}\tb\n'
        "CreateTime:1700000000002\tPartition:0\tOffset:1\tEpoch:NOT_PRESENT\tNO_HEADERS\tnull\tnull\n",
        'NO_TIMESTAMP\tk0\t{"a":0}\tb\nNO_TIMESTAMP\tnull\tnull\n',
    ],
)
def test_the_console_consumer(data: str, run: Run, tmp_path: Path) -> None:  # noqa: F811
    """As that of Kafka 4.4 prints them; the second record has neither key nor value."""
    (tmp_path / "console.txt").write_text(data)
    done = run("load", tmp_path / "console.txt", "--to", tmp_path / "no", "--topic", "t")
    assert done.exit_code == 2
    assert "line 1: this is what kafka-console-consumer prints, not JSON" in done.err
    (tmp_path / "own.jsonl").write_text(by_jq(done.err, data))
    assert run("load", tmp_path / "own.jsonl", "--to", tmp_path / "log", "--topic", "t").exit_code == 0
    columns = ["offset", "key", "value"]
    found = brokerless.open(tmp_path / "log").partition("t", 0).records(columns).read_all().to_pylist()
    assert found == [
        {"offset": 0, "key": b"k0", "value": b'{"a":0}\tb'}, {"offset": 1, "key": None, "value": None}
    ]  # fmt: skip


def test_text_with_colons_is_no_console_consumers(run: Run, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "x.txt").write_text("a\tOffset:0\n")
    done = run("load", tmp_path / "x.txt", "--to", tmp_path / "no", "--topic", "t")
    assert "this is not JSON, of which each line is an object" in done.err


def test_others(run: Run, tmp_path: Path) -> None:  # noqa: F811
    (tmp_path / "x.jsonl").write_text('{"value": "a", "x": 1}\n')
    done = run("load", tmp_path / "x.jsonl", "--to", tmp_path / "no", "--topic", "t")
    assert "a record has no 'x'; it has topic" in done.err
    assert "rename or leave out others" in done.err
