"""What a run of several processes gives to each of them."""

from __future__ import annotations

import pytest

from tests.workers import APART, FEW_FILES, Units

FILES = [f"tests/log/test_{number}.py" for number in range(FEW_FILES)]


def units(config: pytest.Config, collection: list[str]) -> set[str]:
    scheduler = Units(config)
    scheduler.collection = collection
    return {scheduler._split_scope(test) for test in collection}


@pytest.fixture
def config(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> pytest.Config:
    """Of a run of two processes."""
    monkeypatch.setattr(pytestconfig.option, "tx", ["2*popen"], raising=False)
    return pytestconfig


def test_the_tests_of_a_file_are_together(config: pytest.Config) -> None:
    tests = [f"{file}::test_{name}" for file in FILES for name in ("one", "other[a::b]", "other[a@b]")]
    assert units(config, tests) == set(FILES)


def test_a_group_is_together_wherever_its_tests_are(config: pytest.Config) -> None:
    tests = [f"{file}::test_one" for file in FILES]
    assert units(config, [*tests, f"{FILES[0]}::test_other@kafka", f"{FILES[1]}::test_other[x]@kafka"]) == {
        *FILES,
        "kafka",
    }


def test_what_takes_long_and_what_is_in_few_files_is_taken_one_by_one(config: pytest.Config) -> None:
    long = [f"tests/{APART[0]}::test_page[{number}]" for number in range(3)]
    assert units(config, [*(f"{file}::test_one" for file in FILES), *long]) == {*FILES, *long}
    few = [f"{FILES[0]}::test_page[{number}]" for number in range(3)]
    assert units(config, few) == {*few}
