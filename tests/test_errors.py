"""Findings and errors keep what they say through a pickle, as tasks of Spark send them."""

from __future__ import annotations

import pickle
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

import brokerless
from brokerless.errors import (
    DamageError,
    OutOfFilesError,
    RefusedError,
    install_command,
    missing_libraries,
    raise_errors,
)
from brokerless.findings import Finding

FOUND = Finding(
    "error",
    "checksum-mismatch",
    "a.log",
    position=61,
    offset=7,
    message="the checksum does not match",
    expected="1",
    found="2",
)


def test_a_finding_is_one_line_with_its_place_and_what_was_expected() -> None:
    assert str(FOUND) == "a.log, position 61: the checksum does not match (expected 1, found 2)"
    assert str(Finding("info", "kind", "a.log", message="a message")) == "a.log: a message"
    assert Finding(**FOUND.as_dict()) == FOUND


def test_errors_survive_a_pickle() -> None:
    damage = pickle.loads(pickle.dumps(DamageError(FOUND)))
    assert (damage.finding, str(damage)) == (FOUND, str(FOUND))
    refused = pickle.loads(pickle.dumps(RefusedError("OffsetsOutOfOrderException", "offset 3 after 5")))
    assert (refused.reason, str(refused)) == ("OffsetsOutOfOrderException", "offset 3 after 5")
    out = pickle.loads(pickle.dumps(OutOfFilesError("a.log", "too many")))
    assert (out.path, out.reason, str(out)) == ("a.log", "too many", "a.log: too many")


def test_by_default_only_errors_are_raised() -> None:
    raise_errors(Finding("warning", "kind", "a.log", message="a message"))
    with pytest.raises(DamageError, match="checksum"):
        raise_errors(FOUND)


def test_what_is_missing_is_one_command_for_the_interpreter_that_runs_this() -> None:
    """Its pip finds the brokerless that is installed; that of another one would ask an index for this name."""
    command = shlex.split(install_command("s3"))
    assert command == [sys.executable, "-m", "pip", "install", "brokerless[s3]"]
    assert str(missing_libraries("this needs more", "s3")) == f"this needs more: {shlex.join(command)}"


def test_every_extra_that_a_message_names_is_one_of_the_project() -> None:
    root = Path(brokerless.__file__).parents[2]
    known = tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    named = re.compile(r"""(?:missing_libraries\([^)]*?|install_command\()["'](\w+)["']\)""")
    found = {name for path in root.joinpath("src").rglob("*.py") for name in named.findall(path.read_text())}
    assert {"s3", "sql", "spark", "notebook", "polars", "decode"} <= found <= known


def test_no_text_installs_a_project_of_this_name_from_an_index() -> None:
    root = Path(brokerless.__file__).parents[2]
    texts = [*root.joinpath("src").rglob("*.py"), *root.joinpath("docs").glob("*.md"), root / "README.md"]
    found = re.compile(r"""(pip|pipx|uv tool) install ['"]?brokerless""")
    assert [path.name for path in texts if found.search(path.read_text())] == []
