from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from brokerless.cli import main


@dataclass(frozen=True)
class Result:
    exit_code: int
    out: bytes
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.decode().splitlines()

    @property
    def json(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.split(b"\n") if line]


Run = Callable[..., Result]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs a command line in this process."""

    def run(*arguments: object) -> Result:
        capfdbinary.readouterr()
        exit_code = main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return Result(exit_code, out, err.decode())

    return run
