"""Records that are in other partitions are the same by their keys, as often as both sides have them; what was planted
is found with its cause, and nothing else."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.cli.conftest import Run
from tests.cli.conftest import run as run
from tests.jobs.diff.planted import ModelBatch, ModelRecord, write

import brokerless
from brokerless.errors import UsageError
from brokerless.log import names

TIME = 1_700_000_000_000
Row = dict[str, Any]


def rows(chance: random.Random, count: int = 900) -> list[Row]:
    """Some records are the same as others, and some have no key."""
    return [
        {
            "topic": "t",
            "key": None if chance.random() < 0.1 else b"key-%d" % chance.randrange(count // 4),
            "value": None if chance.random() < 0.05 else chance.randbytes(chance.randrange(3)),
            "headers": [{"key": "h", "value": b"v"}] if chance.random() < 0.2 else [],
            "timestamp": TIME + chance.randrange(count // 2),
        }
        for _ in range(count)
    ]


def load(to: Path, chance: random.Random, records: list[Row], partitions: int) -> Path:
    placed = [{**each, "partition": chance.randrange(partitions)} for each in records]
    brokerless.load(pa.Table.from_pylist(placed), str(to))
    return to


def identity(row: Row) -> tuple[Any, ...]:
    return row["key"], row["timestamp"], row["value"], bool(row["headers"])


@pytest.mark.parametrize("seed", range(4))
def test_other_partitions_and_another_order_are_no_difference(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    records = rows(chance)
    left = load(tmp_path / "left", chance, records, 3)
    right = load(tmp_path / "right", chance, chance.sample(records, len(records)), 7)
    found = brokerless.diff(left, right, align="key")
    assert found.is_same, list(found.lines())
    assert sum(each.same for each in found.partitions) == len(records)
    assert not brokerless.diff(left, right).is_same


@pytest.mark.parametrize("seed", range(6))
def test_what_is_planted_is_found_with_its_cause(seed: int, tmp_path: Path) -> None:
    """Each record that is changed is one whose key comes once, so that there is one answer."""
    chance = random.Random(seed)
    records = rows(chance)
    own = [{**records[0], "key": b"own-%d" % each, "timestamp": TIME + each} for each in range(40)]
    changed = [dict(each) for each in own]
    expected: Counter[str] = Counter()
    for at in chance.sample(range(40), 24):
        cause = ("missing", "extra", "changed", "timestamps", "duplicate", "headers")[at % 6]
        expected[cause] += 1
        if cause == "missing":
            changed[at] = {}
        elif cause == "extra":
            changed.append({**own[at], "key": b"new-%d" % at})
        elif cause == "changed":
            changed[at]["value"] = b"another"
        elif cause == "timestamps":
            changed[at]["timestamp"] += 1_000_000
        elif cause == "duplicate":
            changed.append(dict(own[at]))
        else:
            changed[at]["headers"] = [{"key": "other", "value": None}]
    left = load(tmp_path / "left", chance, [*records, *own], 4)
    right = load(tmp_path / "right", chance, [*records, *(each for each in changed if each)], 2)
    found = brokerless.diff(left, right, align="key", limit=None)
    causes = sum((Counter(each.causes or {}) for each in found.partitions), Counter[str]())
    assert causes == expected
    listed = Counter(row["cause"] for row in found.differences().to_pylist() for _ in range(row["records"]))
    assert listed == expected
    reverse = brokerless.diff(right, left, align="key")
    back = sum((Counter(each.causes or {}) for each in reverse.partitions), Counter[str]())
    assert back == expected + Counter(missing=expected["extra"], extra=expected["missing"]) - Counter(
        missing=expected["missing"], extra=expected["extra"]
    )


def test_a_changed_record_without_a_key_is_missing_and_extra(tmp_path: Path) -> None:
    """Nothing says which of all records without a key it was; so these need not be in memory at once."""
    records = [{"topic": "t", "key": None, "value": b"%d" % at, "timestamp": TIME} for at in range(300)]
    left = load(tmp_path / "left", random.Random(1), records, 2)
    right = load(tmp_path / "right", random.Random(2), [*records[1:], {**records[0], "value": b"new"}], 3)
    found = brokerless.diff(left, right, align="key")
    causes = sum((Counter(each.causes or {}) for each in found.partitions), Counter[str]())
    assert causes == {"missing": 1, "extra": 1}


def test_differences_are_named_where_the_record_is(tmp_path: Path) -> None:
    chance = random.Random(1)
    records = [{**each, "key": b"%d" % at} for at, each in enumerate(rows(chance, 300))]
    left = load(tmp_path / "left", chance, records, 3)
    right = load(tmp_path / "right", chance, [*records[:100], *records[101:]], 2)
    (lost,) = (
        row for row in brokerless.open(left).records().read_all().to_pylist() if row["key"] == b"100"
    )  # fmt: skip
    found = brokerless.diff(left, right, align="key")
    (own,) = (each for each in found.partitions if not each.is_same)
    (difference,) = own.differences
    assert (own.partition, difference.first_offset, difference.cause) == (lost["partition"], lost["offset"], "missing")


def test_damage_is_a_range_that_was_not_compared(tmp_path: Path) -> None:
    chance = random.Random(2)
    records = rows(chance)
    left, right = (load(tmp_path / name, chance, records, 2) for name in ("left", "right"))
    log = right / "t-1" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[200] ^= 1
    log.write_bytes(data)
    found = brokerless.diff(left, right, align="key")
    assert not found.is_same
    assert [each.partition for each in found.partitions if each.uncompared] == [1]


def test_a_topic_on_one_side_only_and_aborted_records(tmp_path: Path, run: Run) -> None:
    found = brokerless.diff("demo/data", "demo/data", topics=["payments"], align="key")
    assert found.is_same
    assert (
        sum(each.same for each in found.partitions)
        == brokerless.open("demo/data").records(topics=["payments"], isolation="read_committed").read_all().num_rows
    )
    load(tmp_path / "other", random.Random(1), rows(random.Random(1), 10), 1)
    done = run("diff", "demo/data/orders-0", tmp_path / "other", "--align", "key")
    assert done.exit_code == 1
    assert "orders-0: this topic is on the left only" in done.out.decode()
    assert "t-0: this topic is on the right only" in done.out.decode()


def test_an_open_transaction_hides_nothing(tmp_path: Path) -> None:
    """Its records, and those of others after it, would be missing without a word: a producer may have died long ago."""
    log = [ModelBatch((ModelRecord(each, TIME, b"%d" % each, b"v"),)) for each in range(5)]
    log[2] = replace(log[2], producer=(7, 0, 0), is_transactional=True)
    left = write(tmp_path / "left", log, random.Random(0), segments=1).parent
    right = write(tmp_path / "right", log[:2], random.Random(0), segments=1).parent
    (found,) = brokerless.diff(left, right, align="key").partitions
    assert (found.same, found.causes) == (2, {"missing": 3})
    assert brokerless.diff(left, left, align="key").partitions[0].same == 5


def test_what_is_before_the_log_start_offset_is_not_compared(tmp_path: Path) -> None:
    log = [ModelBatch((ModelRecord(each, TIME, b"%d" % each, b"v"),)) for each in range(6)]
    left = write(tmp_path / "left", log, random.Random(0), segments=1).parent
    right = write(tmp_path / "right", log[4:], random.Random(0), segments=1).parent
    (left / names.LOG_START_OFFSET_CHECKPOINT).write_text("0\n1\ntopic 0 4\n")
    for one, other in ((left, right), (right, left)):
        found = brokerless.diff(one, other, align="key")
        assert (found.is_same, found.partitions[0].same) == (True, 2)


def test_what_does_not_go_with_it_is_one_sentence(run: Run) -> None:
    for options in ({"quick": True}, {"offset_map": "x"}, {"offset_syncs": "x"}):
        with pytest.raises((UsageError, brokerless.UnreadableError)):
            brokerless.diff("demo/data", "demo/data", align="key", **options)
    done = run("diff", "demo/data", "demo/data", "--align", "key", "--quick")
    assert (done.exit_code, "records that are paired by keys are all read" in done.err) == (2, True)


def test_nothing_is_left_in_the_temporary_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert brokerless.diff("demo/data", "demo/data", topics=["orders"], align="key").is_same
    assert list(tmp_path.iterdir()) == []
