"""The examples in docstrings of the public interface, executed on ``demo/data``."""

from __future__ import annotations

import doctest
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import brokerless

ROOT = Path(__file__).parents[2]


def documented() -> Iterator[tuple[str, Any]]:
    """All public names, and the methods that are defined in brokerless."""
    for name in brokerless.__all__:
        found = getattr(brokerless, name)
        yield name, found
        if inspect.isclass(found):
            for method, each in inspect.getmembers(found, inspect.isfunction):
                if not method.startswith("_") and each.__module__.startswith("brokerless"):
                    yield f"{name}.{method}", each


WITH_EXAMPLES = {name: each for name, each in documented() if ">>>" in (inspect.getdoc(each) or "")}


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_an_example_prints_what_it_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    (test,) = doctest.DocTestFinder(recurse=False).find(WITH_EXAMPLES[name], name, module=False, globs={})
    output: list[str] = []
    assert runner.run(test, out=output.append).failed == 0, "".join(output)


def test_methods_have_examples() -> None:
    assert {"Log.records"} <= WITH_EXAMPLES.keys()
