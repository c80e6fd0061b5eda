"""Which batch of a file is explained, and what files there are."""

from __future__ import annotations

import os
import random
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.explanation.tree import check_tiles, named
from tests.golden import broker_data, broker_expected, case, golden, json_lines

import brokerless
from brokerless.errors import UnreadableError, UsageError
from brokerless.explanation.field import leaves
from brokerless.explanation.files import build_batch, explain, explain_built
from brokerless.log.producer.snapshot import load_producer_snapshot
from brokerless.log.storage.location import Location

ORDERS = Path(__file__).parents[2] / "demo/data/orders-0"
LOG = ORDERS / "00000000000000000656.log"
OTHER_FILES = re.compile(
    r".*\.(index|timeindex|txnindex|snapshot)|.*-checkpoint|partition\.metadata|meta\.properties|quorum-state"
)


def batches() -> list[dict[str, int]]:
    return brokerless.open(LOG).batches(["position", "sizeInBytes", "baseOffset", "lastOffset"]).read_all().to_pylist()


def test_without_more_it_is_the_first_batch() -> None:
    explained = explain(LOG)
    assert (explained.kind, explained.fields[0].position, explained.size) == ("log", 0, batches()[0]["sizeInBytes"])


def test_an_offset_is_found_with_the_index_and_without(tmp_path: Path) -> None:
    alone = shutil.copy(LOG, tmp_path)
    for batch in batches():
        for path in (LOG, alone):
            (entry,) = explain(path, offset=batch["lastOffset"], records=1).fields
            assert entry.position == batch["position"]


def test_an_offset_past_the_end_is_refused() -> None:
    with pytest.raises(UnreadableError, match="no batch has offset 99999 or a later one"):
        explain(LOG, offset=99_999)


def test_any_position_within_a_batch_is_that_batch() -> None:
    second = batches()[1]
    for at in (second["position"], second["position"] + 30, second["position"] + second["sizeInBytes"] - 1):
        assert explain(LOG, position=at).fields[0].position == second["position"]


def test_a_position_past_the_end_and_two_places_are_refused() -> None:
    with pytest.raises(UsageError, match="there is no position"):
        explain(LOG, position=10**9)
    with pytest.raises(UsageError, match="exclude each other"):
        explain(LOG, position=1, offset=1)


def test_where_no_batch_is_known_a_position_is_taken_as_one(tmp_path: Path) -> None:
    damaged = tmp_path / LOG.name
    data = bytearray(LOG.read_bytes())
    first = batches()[0]["sizeInBytes"]
    data[first + 8 : first + 12] = bytes(4)
    damaged.write_bytes(data)
    broken = explain(damaged, position=first)
    assert named(broken.fields[0])["size"].expected == "14 or more, the smallest message"
    third = batches()[2]["position"]
    assert explain(damaged, position=third).fields[0].position == third
    assert not list(explain(damaged, position=third).problems())


def test_a_batch_that_is_cut_off_is_explained_as_far_as_it_goes(tmp_path: Path) -> None:
    cut = tmp_path / LOG.name
    at = batches()[0]["sizeInBytes"]
    cut.write_bytes(LOG.read_bytes()[: at + 700])
    explained = explain(cut, position=at)
    assert explained.fields[-1].end == at + 700
    assert named(explained.fields[0])["size"].expected == "at most 688, as many as there are"


def test_an_empty_file_has_no_fields(tmp_path: Path) -> None:
    empty = tmp_path / LOG.name
    empty.touch()
    assert explain(empty).fields == ()


@pytest.mark.parametrize(
    ("magic", "sizes"), [(0, (34, 31, 65)), (1, (42, 39, 81)), (2, (76, 73, 88))], ids=["v0", "v1", "v2"]
)
def test_built_batches_have_the_sizes_of_the_articles(magic: int, sizes: tuple[int, ...]) -> None:
    first, second = (1_500_000_000_000, b"key", b"value"), (1_500_000_000_000, None, b"value")
    names = ("key-value", "null-key", "two-records" if magic == 2 else "two-messages")
    for records, size, name in zip([[first], [second], [first, second]], sizes, names, strict=True):
        data = build_batch(magic, "none", records)
        assert data == case(f"articles/v{magic}-{name}").log.read_bytes()
        assert explain_built(data).size == size


def test_in_old_formats_as_many_messages_as_records_are_asked_for() -> None:
    log = case("articles/v1-two-messages").log
    assert [each.length for each in explain(log).fields] == [42]
    assert [each.length for each in explain(log, records=2).fields] == [42, 39]


def other_files() -> list[Path]:
    files = [each for each in (golden() / "brokers").rglob("*") if "data" in each.parts and each.stat().st_size]
    chance = random.Random(3)
    kinds: dict[str, list[Path]] = {}
    for each in sorted(files):
        if each.is_file() and OTHER_FILES.fullmatch(each.name):
            kinds.setdefault(each.suffix or each.name, []).append(each)
    return [each for of_kind in kinds.values() for each in chance.sample(of_kind, min(8, len(of_kind)))]


def test_all_kinds_of_a_brokers_files_are_explained_to_their_last_byte(tmp_path: Path) -> None:
    kinds: set[str] = set()
    chance = random.Random(9)
    for path in other_files():
        data = path.read_bytes()
        explained = explain(path)
        check_tiles(explained.fields, 0, len(data), data)
        assert not list(explained.problems()), path
        kinds.add(explained.kind)
        changed = tmp_path / path.name
        for _ in range(4):
            damaged = bytearray(data)
            damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            del damaged[chance.randint(1, 2 * len(data)) :]
            changed.write_bytes(damaged)
            check_tiles(explain(changed, records=5).fields, 0, len(damaged), bytes(damaged))
    assert kinds >= {
        "offset-index", "time-index", "transaction-index", "producer-snapshot", "leader-epoch-checkpoint",
        "recovery-point-offset-checkpoint", "replication-offset-checkpoint", "log-start-offset-checkpoint",
        "cleaner-offset-checkpoint", "partition.metadata", "meta.properties", "quorum-state",
    }  # fmt: skip


INDEXES = {
    "index": ("relative_offset", "position"),
    "timeindex": ("timestamp", "relative_offset"),
    "txnindex": ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset"),
}


def test_entries_of_indexes_are_those_that_kafka_reads() -> None:
    compared = 0
    for line in json_lines(broker_expected("clean") / "txn-0" / "expected-index.jsonl"):
        base = int(line["file"].partition(".")[0])
        path = broker_data("clean") / "txn-0" / line["file"]
        ours = [
            [named(entry)[name].value + base * (name == "relative_offset") for name in INDEXES[line["type"]]]
            for entry in explain(path, records=10**6).fields
            if entry.name.startswith("entry[")
        ]
        assert ours == line["entries"]
        compared += len(ours)
    assert compared > 20


def test_entries_of_an_index_begin_where_a_lookup_ends() -> None:
    first, second, *_ = explain(ORDERS / "00000000000000000656.index").fields
    found = explain(ORDERS / "00000000000000000656.index", offset=830, records=1).fields
    assert [each.name for each in found] == ["entries", "entry[1]", "entries"]
    assert [found[0].length, found[1]] == [first.length, second]


def test_entries_before_the_base_offset_or_the_file_are_not_as_expected(tmp_path: Path) -> None:
    index = tmp_path / "00000000000000000656.index"
    index.write_bytes(np.array([-5, 100, 7, -1], ">i4").tobytes())
    found = dict(explain(index).problems())
    assert found["entry[0].relative_offset"].expected == "at least 0"
    assert found["entry[1].position"].expected == "at least 0"


def test_entries_out_of_order_are_not_as_expected(tmp_path: Path) -> None:
    index = tmp_path / "00000000000000000656.index"
    data = (ORDERS / index.name).read_bytes()
    index.write_bytes(data[8:16] + data[:8] + data[16:] + b"\0")
    found = dict(explain(index).problems())
    assert "must grow" in str(found["entry[1]"].expected)
    assert found["unread"].length == 1


def test_a_producer_snapshot_has_the_values_that_are_loaded() -> None:
    path = max(broker_data("clean").glob("txn-0/*.snapshot"))
    loaded, explained = load_producer_snapshot(Location(str(path))), explain(path)
    entries = [named(each) for each in explained.fields if each.name.startswith("producer[")]
    assert [each["producer_id"].value for each in entries] == loaded.producer_ids.tolist()
    assert [each["last_offset"].value for each in entries] == loaded.last_offsets.tolist()
    assert len(entries) > 1


def test_records_of_internal_topics_are_known_by_the_directory() -> None:
    log = ORDERS.parent / "__consumer_offsets-0" / "00000000000000000000.log"
    paths = [path for path, _ in leaves(explain(log).fields)]
    assert "batch.record[0].key.group" in paths
    metadata = broker_data("clean") / "bootstrap.checkpoint"
    assert any(path.endswith("value.frame_version") for path, _ in leaves(explain(metadata, position=90).fields))


def test_a_directory_and_a_missing_file_are_refused() -> None:
    for path in (ORDERS, ORDERS / "nothing.log"):
        with pytest.raises(UnreadableError):
            explain(path)


def test_urls_are_read_too() -> None:
    assert explain(f"file://{os.fspath(LOG)}").fields == explain(LOG).fields
