"""Several readers at the same time: all rows of each in its order, errors raised, nobody left behind."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest

from brokerless.dataset.parallel import read_all


def numbers(reader: int, count: int) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        yield pa.RecordBatch.from_pydict({"reader": [reader], "number": [number]})


def workers() -> int:
    return sum(each.daemon and each.name.endswith("(_work)") for each in threading.enumerate())


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_all_of_each_in_its_order(threads: int) -> None:
    rows = [batch.to_pylist()[0] for batch in read_all([partial(numbers, each, 40) for each in range(7)], threads)]
    for reader in range(7):
        assert [row["number"] for row in rows if row["reader"] == reader] == list(range(40))
    assert len(rows) == 280
    assert not workers()


def test_with_one_thread_one_after_the_other() -> None:
    batches = read_all([partial(numbers, each, 3) for each in range(3)], 1)
    assert [batch["reader"][0].as_py() for batch in batches] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("threads", [1, 2])
def test_what_a_reader_raises_is_raised(threads: int) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from numbers(0, 2)
        raise KeyError("this")

    with pytest.raises(KeyError, match="this"):
        list(read_all([partial(numbers, 1, 1000), broken, partial(numbers, 2, 1000)], threads))
    assert not workers()


def test_who_stops_early_stops_the_readers() -> None:
    read: list[int] = []

    def endless() -> Iterator[pa.RecordBatch]:
        while True:
            read.append(1)
            yield from numbers(0, 1)

    batches = read_all([endless, endless], 2)
    next(batches)
    batches.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert not workers()
    assert len(read) < 50
