"""No public function ends in an error from inside for an argument of another type: each is refused by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import MISSING
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import brokerless
from brokerless import requests as package
from brokerless.requests.option_types import NUMBER, PATH
from brokerless.requests.options import Option, asks, given, options_of, request

FUNCTIONS = (
    *("backup", "carve", "cluster", "diff", "diff_replicas", "load", "merge", "open", "prove", "rebuild", "restore"),
    *("serve", "undo_rebuild"),
)
CLASSES = (brokerless.Log, brokerless.Backup)


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in FUNCTIONS:
        yield name, getattr(brokerless, name)
    for class_ in CLASSES:
        for name, method in inspect.getmembers(class_, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{class_.__name__}.{name}", method


def requests() -> dict[str, type[Any]]:
    modules = (import_module(f"brokerless.requests.{each.name}") for each in iter_modules(package.__path__))
    found = {
        name: each
        for module in modules
        for name, each in vars(module).items()
        if name.endswith("Request") and isinstance(each, type)
    }
    return dict(sorted(found.items()))


def options() -> list[Any]:
    return [
        pytest.param(made, name, option, default, id=f"{of}.{name}")
        for of, made in requests().items()
        for name, option, default in options_of(made)
    ]


@pytest.mark.parametrize(("made", "name", "option", "default"), options())
def test_what_is_of_another_type_is_refused_by_its_name(
    made: type[Any], name: str, option: Option, default: Any
) -> None:
    if not option.type.expected:
        return  # it is checked where it is used
    needed = {each: "x" for each, _, of_other in options_of(made) if of_other is MISSING and each != name}
    with pytest.raises(brokerless.UsageError, match=f"^{name}: "):
        made(**needed, **{name: object()})


@pytest.mark.parametrize(("name", "function"), public())
def test_a_function_has_the_keywords_and_the_docstring_of_its_request(name: str, function: Callable[..., Any]) -> None:
    if not hasattr(function, "__wrapped__"):
        assert len(inspect.signature(function).parameters) <= 1, name  # it has no options
        return
    names = [each for each in inspect.signature(function).parameters if each != "self"]
    text = inspect.getdoc(function) or ""
    assert names
    assert all(f"\n{each} : " in text for each in names)


@pytest.mark.parametrize(("made", "name", "option", "default"), options())
def test_what_is_none_of_the_choices_or_too_small_is_refused(
    made: type[Any], name: str, option: Option, default: Any
) -> None:
    needed = {each: "x" for each, _, of_other in options_of(made) if of_other is MISSING and each != name}
    if option.type.choices and option.type.expected != "a text" and not option.type.is_list and not option.type.values:
        with pytest.raises(brokerless.UsageError, match=f"^{name}: 'neither' is not"):
            made(**needed, **{name: "neither"})
    if option.type.least is not None:
        with pytest.raises(brokerless.UsageError, match=f"^{name}: {option.type.least - 1} is "):
            made(**needed, **{name: option.type.least - 1})


def test_an_unknown_keyword_is_said_of_the_function_that_was_called() -> None:
    log: Any = brokerless.open("demo/data")
    for method, text in (("records", "topic'; did you mean topics"), ("to_table", "topic'; did"), ("sql", "topic'")):
        with pytest.raises(TypeError, match=rf"^{method}\(\) got an unexpected keyword argument '{text}"):
            getattr(log, method)(topic="orders")


@pytest.mark.parametrize(("made", "name", "option", "default"), options())
def test_a_sentence_reads_as_help_and_as_a_docstring(made: type[Any], name: str, option: Option, default: Any) -> None:
    assert option.sentence
    assert not option.sentence.endswith(".")
    first = option.sentence.split()[0]
    assert first[0].islower() or not first.isalpha() or first in ("CSV", "JSON", "DuckDB's", "Iceberg's")


READING = {
    "records": {}, "batches": {}, "segments": {}, "transactions": {}, "dataset": {"table": "records"}, "verify": {},
    "audit": {}, "sql": {"query": "SELECT 1"}, "schema": {}, "size": {}, "restart": {}, "to_table": {}, "to_pandas": {},
    "offset_for_timestamp": {"timestamp": 1_700_000_000_000}, "topic": {"name": "users"},
    "partition": {"topic": "users", "partition": 0},
}  # fmt: skip
NAIVE = datetime(2024, 1, 1)
WRONG: list[Any] = [5, -1, 1.5, True, "x", b"x", [5], [object()], {"a": 1}, {5: 5}, object(), np.float64(1), NAIVE]


def reading() -> list[Any]:
    found: list[Any] = []
    log = brokerless.open("demo/data")
    for of in (log, log.partition("users", 0), log.topic("users")):
        for name, more in READING.items():
            method = getattr(of, name, None)
            if not callable(method) or (name == "size" and of is log):  # it would encode all of it dozens of times
                continue
            for parameter in inspect.signature(method).parameters.values():
                if parameter.kind != inspect.Parameter.VAR_KEYWORD and parameter.name not in ("state", "kafka"):
                    place = f"{type(of).__name__}.{name}({parameter.name})"
                    found.append(pytest.param(method, parameter.name, more, id=place))
    return found


@pytest.mark.parametrize(("method", "name", "more"), reading())
def test_reading_raises_nothing_from_inside(method: Callable[..., Any], name: str, more: dict[str, Any]) -> None:
    own = {key: value for key, value in more.items() if key in inspect.signature(method).parameters}
    for value in WRONG:
        try:
            found = method(**{**own, name: value})
            if isinstance(found, pa.RecordBatchReader):
                found.read_all()
            elif inspect.isgenerator(found):
                list(found)
        except (brokerless.BrokerlessError, pa.ArrowInvalid):
            continue
        except Exception as error:
            raise AssertionError(f"{name}={value!r} ends in {type(error).__name__}: {error}") from error


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"decode": 5}, 'decode: 5 is not True, "auto", a format such as "json", or a brokerless.Decoding'),
        ({"limit": "3"}, "limit: '3' is not a whole number"),
        ({"limit": True}, "limit: True is not a whole number"),
        ({"start_timestamp": True}, "start_timestamp: True is not a time"),
        ({"control": "yes"}, "control: 'yes' is not True or False"),
        ({"done": 5}, "done: 5 is not a function"),
    ],
)
def test_what_is_given_and_expected_is_said(given: dict[str, Any], text: str) -> None:
    with pytest.raises(brokerless.UsageError) as raised:
        brokerless.open("demo/data").records(**given)
    assert str(raised.value).startswith(text)


@pytest.mark.parametrize("given", ["secret", ["secret"], 5])
def test_options_of_a_storage_are_in_no_message(given: Any) -> None:
    with pytest.raises(brokerless.UsageError) as raised:
        brokerless.open("demo/data", storage_options=given)
    what = f"a value of type {type(given).__name__}"
    assert str(raised.value) == f"storage_options: {what} is not a dict of fsspec's options"


def test_what_is_right_is_taken() -> None:
    log = brokerless.open(Path("demo/data"), storage_options=None)
    at = datetime(2025, 1, 1, tzinfo=UTC)
    of_numpy: dict[str, Any] = {"limit": np.int64(2), "control": np.bool_(False)}
    rows = log.records(["offset"], start_timestamp=0, end_timestamp=at, **of_numpy)
    assert rows.read_all().num_rows <= 2

    @request
    class Own:
        path: str | Path = given(PATH, "where", kw_only=False)
        count: int | None = given(NUMBER, "how many of --path", default=None)

    @asks(Own)
    def function(request: Own) -> tuple[Any, ...]:
        """Kept."""
        return request.path, request.count

    assert function("a", count=None) == ("a", None)
    assert list(inspect.signature(function).parameters) == ["path", "count"]
    assert (function.__doc__ or "").splitlines() == [
        *("Kept.", "", "Parameters", "----------"),
        *("path : path", "    Where.", "count : int, optional", "    How many of ``path``."),
    ]
    with pytest.raises(TypeError, match=r"function\(\) got an unexpected keyword argument 'counts'"):
        function("a", counts=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


def test_lists_may_be_walked_once_only() -> None:
    log = brokerless.open("demo/data")
    assert log.records(name for name in ("offset", "key")).read_all().column_names == ["offset", "key"]
    assert log.partition("orders", 0).records(iter(["offset"])).read_all().num_rows > 0
    assert log.topic("orders").to_pandas(map(str, ["offset"])).columns.tolist() == ["offset"]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda log: log.compact("to", topics="orders"), r"topics: 'orders' is not a list of texts; give \['orders'\]"),
        (lambda log: brokerless.restore(log.path, to="there"), r"to: 'there' is not a list of paths; give \['there'\]"),
    ],
)
def test_a_text_is_no_list_of_its_letters(call: Callable[[brokerless.Log], Any], text: str) -> None:
    with pytest.raises(brokerless.UsageError, match=text):
        call(brokerless.open("demo/data"))
