"""Options of commands that are made of a request, and the request of what was typed."""

from __future__ import annotations

from argparse import Namespace
from datetime import UTC
from typing import Any

import pytest

from brokerless.cli.parser import Parser
from brokerless.cli.requests import add_request, request_of
from brokerless.requests.backups import KeysRequest
from brokerless.requests.checking import SizeRequest, TrimRequest
from brokerless.requests.recovery import RebuildRequest
from brokerless.requests.writing import CompactRequest, ConvertRequest


def typed(request: type[Any], *arguments: str, **more: Any) -> Namespace:
    parser = Parser(prog="brokerless it")
    add_request(parser, request, **more)
    parser.add_argument("--timezone", default=UTC)
    return parser.parse_args(arguments)


def test_what_is_not_typed_is_as_in_python() -> None:
    made, own = request_of(ConvertRequest, typed(ConvertRequest, "--to", "there")), ConvertRequest("there")
    assert vars(made) | {"spark": own.spark} == vars(own)
    assert made.spark is None  # a command takes Spark for what takes hours


@pytest.mark.parametrize(
    ("request_type", "arguments", "name", "value"),
    [
        (ConvertRequest, ("--to", "a", "--format", "v1"), "message_format", 1),
        (ConvertRequest, ("--to", "a", "--batch-size", "128KiB"), "batch_size", 131_072),
        (SizeRequest, ("--format", "v0", "--format", "v2"), "message_formats", [0, 2]),
        (SizeRequest, ("--sample", "10%"), "sample", 0.1),
        (TrimRequest, ("--free", "20GB"), "free", 20_000_000_000),
        (TrimRequest, ("--before", "2026-11-01"), "before", 1_793_491_200_000),
        (CompactRequest, ("--what-if",), "dry_run", True),
        (KeysRequest, ("--add", "a=a.pem", "--add", "b=b.pem"), "add", {"a": "a.pem", "b": "b.pem"}),
        (RebuildRequest, ("--to", "a", "--log-start", "orders-0=212"), "log_starts", {("orders", 0): 212}),
    ],
)
def test_what_is_typed_becomes_what_python_takes(
    request_type: type[Any], arguments: tuple[str, ...], name: str, value: Any
) -> None:
    more = {"paths": ()} if request_type is RebuildRequest else {}
    assert getattr(request_of(request_type, typed(request_type, *arguments), **more), name) == value


@pytest.mark.parametrize(
    ("request_type", "arguments", "says"),
    [
        (KeysRequest, ("--add", "a=a.pem", "--add", "a=b.pem"), "--add: a is given twice"),
        (RebuildRequest, ("--to", "a", "--log-start", "o-0=1", "--log-start", "o-0=2"), "--log-start: o-0 is given"),
        (ConvertRequest, (), "missing --to"),
        (ConvertRequest, ("--to", "a", "--format", "v9"), "'v9' is not one of v0, v1, v2"),
    ],
)
def test_what_cannot_be_is_refused_by_its_option(
    request_type: type[Any], arguments: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        typed(request_type, *arguments)
    assert says in capsys.readouterr().err


def test_of_ways_to_say_what_one_is_given(capsys: pytest.CaptureFixture[str]) -> None:
    ways = ("free", "retention", "before")
    for arguments in ((), ("--free", "1GB", "--retention")):
        with pytest.raises(SystemExit):
            typed(TrimRequest, *arguments, one_of=ways)
    assert "give one of them" in capsys.readouterr().err
    assert request_of(TrimRequest, typed(TrimRequest, "--retention", one_of=ways)).retention
