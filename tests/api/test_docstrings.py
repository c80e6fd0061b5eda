"""The reference of the public interface: each parameter, what is returned and what is raised has its place."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.api.test_examples import documented

NO_SECTIONS = {
    "Explanation.leaves": "no parameters",
    "Explanation.problems": "no parameters",
    "Finding.as_dict": "no parameters",
    "Proof.as_dict": "no parameters",
    "RecordFilter.matcher": "for packages of brokerless",
    "UnreadableError.reason_for": "for packages of brokerless",
    "BatchSettings.encoder": "no parameters",
}


def functions() -> Iterator[tuple[str, Any]]:
    for name, each in documented():
        if inspect.isfunction(each) and name not in NO_SECTIONS:
            yield name, each


FUNCTIONS = dict(functions())


def sections(text: str) -> dict[str, str]:
    parts = re.split(r"^(\w+)\n-{3,}\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_parameter_is_described_once(name: str) -> None:
    parameters = [
        f"**{each.name}" if each.kind is each.VAR_KEYWORD else each.name
        for each in inspect.signature(FUNCTIONS[name]).parameters.values()
        if each.name != "self"
    ]
    found = sections(inspect.getdoc(FUNCTIONS[name]) or "").get("Parameters", "")
    heads = [line.partition(" :")[0] for line in found.splitlines() if line and not line.startswith(" ")]
    assert sorted(each for head in heads for each in head.split(", ")) == sorted(parameters)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_returned_is_described(name: str) -> None:
    text = inspect.getdoc(FUNCTIONS[name]) or ""
    returned = inspect.signature(FUNCTIONS[name]).return_annotation
    is_named_in_its_first_line = text.startswith("One ")
    assert returned == "None" or is_named_in_its_first_line or {"Returns", "Yields"} & sections(text).keys()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_first_line_says_what_it_does(name: str) -> None:
    """One sentence, or the begin of one that ends in the next line."""
    first, _, rest = (inspect.getdoc(FUNCTIONS[name]) or "").partition("\n")
    assert first.endswith(".") or (rest and not rest.startswith("\n"))


def test_exceptions_are_of_functions_that_there_are() -> None:
    assert NO_SECTIONS.keys() <= {name for name, _ in documented()}
