"""No public function ends in an error from inside for an argument of another type: each is refused by its name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import brokerless
from brokerless.tables.arguments import checked, expected_of

FUNCTIONS = (
    *("carve", "cluster", "load", "merge", "next_offsets", "open", "pipeline", "prove", "rebuild", "restore"),
    *("serve", "undo_rebuild"),
)
CLASSES = (brokerless.Log,)
CHECKED_WHERE_USED = {
    "Isolation", "RecordFilter", "Literal['segments', 'parquet']", "Literal['3.9', '4.4']", "ExportForm", "Any", "Data",
    "Mapping[tuple[str, int], int]", "Mapping[str, str] | str | os.PathLike[str]", "Iterable[bytes | str]", "Selection",
    "tuple[str, bytes | str]", "Quorum", "ResetTo", "Iterable[pa.RecordBatch]", "Routing", "BatchSettings", "LogConfig",
    "Callable[[int], object]", "int | str", "Collection[str | os.PathLike[str]]",
    "Unpack[ReadingOptions]", "pa.RecordBatch",
    "str | os.PathLike[str] | Location", "Catalog | str",
}  # fmt: skip
"""Annotations, without ``None``, whose types are not told from others before they are used."""


def public() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in FUNCTIONS:
        yield name, getattr(brokerless, name)
    for class_ in CLASSES:
        for name, method in inspect.getmembers(class_, inspect.isfunction):
            if not name.startswith("_"):
                yield f"{class_.__name__}.{name}", method


def parameters() -> list[tuple[str, Callable[..., Any], inspect.Parameter]]:
    return [
        (f"{name}({each.name})", function, each)
        for name, function in public()
        for each in inspect.signature(function).parameters.values()
        if each.name != "self"
    ]


@pytest.mark.parametrize(("name", "function", "parameter"), parameters())
def test_what_is_of_another_type_is_refused_by_its_name(
    name: str, function: Callable[..., Any], parameter: inspect.Parameter
) -> None:
    if expected_of(parameter) is None:
        assert str(parameter.annotation).removesuffix(" | None") in CHECKED_WHERE_USED, name
        return
    wrong: Any = object()
    own = [None] if "." in name else []
    with pytest.raises(brokerless.UsageError, match=f"^{parameter.name}: "):
        function(*own, **{parameter.name: wrong})


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
            if not callable(method):
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

    @checked
    def function(path: str | Path, *, count: int | None = None) -> tuple[Any, ...]:
        """Kept."""
        return path, count

    assert function("a", count=None) == ("a", None)
    assert function.__doc__ == "Kept."
    assert list(inspect.signature(function).parameters) == ["path", "count"]


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
