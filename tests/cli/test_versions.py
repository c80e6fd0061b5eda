"""What a bug report needs is printed."""

from __future__ import annotations

import platform

import numpy as np
import pyarrow as pa
from tests.cli.conftest import Run

import brokerless


def test_versions_of_all_that_matters_are_printed(run: Run) -> None:
    result = run("--version", "-v")
    assert (result.exit_code, result.err) == (0, "")
    assert result.lines[0] == f"brokerless {brokerless.__version__}"
    found = dict(line.split(None, 1) for line in result.lines[1:])
    assert found["python"].startswith(platform.python_version())
    assert f"pyarrow {pa.__version__}, numpy {np.__version__}" in found["libraries"]
    assert "zstandard " in found["codecs"]
    assert found["kernels"].startswith(("/", "not kept"))
    assert run("--version").lines == result.lines[:1]
