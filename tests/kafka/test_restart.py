"""Partitions of a broker are damaged while it does not run, each in its own way, and then it starts: it does to each
what the dry run said. Most of these starts are recorded."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest

import brokerless
from brokerless.clusters.start.results import LostRecords
from tests.kafka import recorded_starts
from tests.kafka.damaged_partitions import (
    CLOSED,
    DAMAGES,
    FAR,
    FAR_OFFSET,
    HIDDEN,
    PARTITIONS,
    REFUSED,
    TOPIC,
    UNCLOSED,
)
from tests.kafka.damaged_starts import (
    KILLED,
    RECORDED,
    Answer,
    Content,
    Starts,
    answers_of,
    ask,
    contents,
    digest,
    make_base,
    prepare,
)

pytestmark = pytest.mark.xdist_group("restart")


@dataclass(frozen=True)
class Restarted:
    """All starts, and what brokers did; and by partition all records before the damage, and of what salvage saved, as
    we read them, and the batches before the damage: bytes, first and last offset."""

    starts: Starts
    answers: dict[str, Answer]
    whole: dict[int, dict[int, Content]]
    written: dict[int, dict[int, Content]]
    batches: dict[int, list[tuple[bytes, int, int]]]


@pytest.fixture(scope="module")
def restarted(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Restarted:
    root = tmp_path_factory.mktemp("restart")
    base = recorded_starts.base(RECORDED, make_base, root / "base")
    starts = prepare(base, root / "starts")
    killed = base / KILLED
    return Restarted(
        starts, answers_of(starts, root / "asked"), records(killed), records(starts.saved), batches(killed)
    )


def records(directory: Path) -> dict[int, dict[int, Content]]:
    """Of all partitions, committed or not."""
    found: dict[int, dict[int, Content]] = {}
    for partition in brokerless.open(directory).topic(TOPIC).partitions:
        assert partition.topic_partition is not None
        own = found[partition.topic_partition[1]] = {}
        for batch in partition.records(["offset", "key", "value", "timestamp"]):
            times = batch.column("timestamp").cast(pa.int64()).to_pylist()
            for row, timestamp in zip(batch.to_pylist(), times, strict=True):
                assert row["offset"] not in own
                own[row["offset"]] = row["key"], row["value"], timestamp
    return found


def batches(directory: Path) -> dict[int, list[tuple[bytes, int, int]]]:
    """Bytes, first and last offset of all batches."""
    found: dict[int, list[tuple[bytes, int, int]]] = {}
    log = brokerless.open(directory)
    for number in PARTITIONS.values():
        rows = [row for batch in log.partition(TOPIC, number).batches() for row in batch.to_pylist()]
        data = {path: Path(path).read_bytes() for path in {row["file"] for row in rows}}
        found[number] = [
            (data[row["file"]][row["position"] :][: row["sizeInBytes"]], row["baseOffset"], row["lastOffset"])
            for row in rows
        ]
    return found


def test_a_broker_still_does_what_is_recorded(restarted: Restarted, tmp_path: Path) -> None:
    """After a clean stop, of which a start is the shortest."""
    found, known = ask(restarted.starts, "closed", tmp_path / "broker"), restarted.answers["closed"]
    assert found.offsets == known.offsets
    assert found.after == known.after


def logs(files: dict[str, bytes]) -> dict[str, int]:
    return {name: len(data) for name, data in files.items() if name.endswith(".log")}


@pytest.mark.parametrize("name", DAMAGES)
def test_the_broker_does_what_the_dry_run_said(restarted: Restarted, name: str) -> None:
    number = PARTITIONS[name]
    start, answer = restarted.starts.starts["damaged"], restarted.answers["damaged"]
    said, before, after = start.said[number], start.before[number], answer.after[number]
    assert said.refused is None
    expected = dict(before)
    for file in said.removed:
        del expected[file]
    for source, target in said.renamed:
        expected[target] = expected.pop(source)
    sizes = logs(expected)
    for file, size in said.deleted:
        assert sizes.pop(Path(file).name) == size
    renamed = dict(said.renamed)
    for cut in said.cut:
        file = Path(cut.file).name
        assert sizes[renamed.get(file, file)] == cut.size
        sizes[renamed.get(file, file)] = cut.kept
    assert logs(after) == (sizes or {f"{said.log_end_offset:020}.log": 0})
    assert answer.offsets[number] == (said.log_start_offset, said.log_end_offset)
    assert not [file for file in after if file.endswith((".swap", ".cleaned"))]
    # Indexes of closed segments: those that are made anew, and no others, may be other than before.
    active = max(logs(after)).removesuffix(".log")
    rebuilt = {renamed.get(Path(file).name, Path(file).name) for file in said.rebuilt}
    emptied = {Path(file).name for file in said.emptied}
    assert not emptied & expected.keys()
    for file, data in after.items():
        if file.endswith(("index", "txnindex")) and not file.startswith(active):
            assert file in rebuilt or expected.get(file) == data or (file in emptied and not any(data)), file


def test_a_segment_without_an_offset_index_gets_all_indexes_again(restarted: Restarted) -> None:
    number = PARTITIONS["flushed-index-lost"]
    whole = contents(restarted.starts.base / KILLED, number)
    lost = whole.keys() - restarted.starts.starts["damaged"].before[number].keys()
    assert [name.rpartition(".")[2] for name in lost] == ["index"]
    for name, data in whole.items():
        if name.startswith(min(lost).split(".")[0]):
            assert restarted.answers["damaged"].after[number][name] == data


def test_a_log_ends_where_a_segment_does_that_is_split_and_goes_on_after_the_last(restarted: Restarted) -> None:
    assert restarted.starts.starts["far"].said[FAR].log_end_offset == FAR_OFFSET + 1
    assert restarted.answers["far"].offsets[FAR][1] == FAR_OFFSET + 1


@pytest.mark.parametrize("name", CLOSED)
def test_after_a_clean_stop_the_broker_believes_what_is_there_as_the_dry_run_said(
    restarted: Restarted, name: str
) -> None:
    number = PARTITIONS[name]
    start, answer = restarted.starts.starts["closed"], restarted.answers["closed"]
    said, before, after = start.said[number], start.before[number], answer.after[number]
    assert said.refused is None
    assert not said.lost_bytes
    assert logs(after) == logs(before)
    assert answer.offsets[number] == (said.log_start_offset, said.log_end_offset)
    assert bool(said.unclosed) == (name in UNCLOSED)
    if name in HIDDEN:
        assert said.lost.last_offset is not None
        assert said.lost.last_offset >= said.log_end_offset
    else:
        assert said.lost == LostRecords()


def test_the_broker_does_not_start_where_the_dry_run_said_so(restarted: Restarted) -> None:
    output = restarted.answers["refused"].output
    assert "CorruptRecordException" in str(restarted.starts.starts["refused"].said[REFUSED].refused)
    assert "CorruptRecordException" in output
    assert f"{TOPIC}-{REFUSED}" in output


def test_the_broker_ends_at_a_segment_that_it_cannot_split_as_the_dry_run_said(restarted: Restarted) -> None:
    said = restarted.starts.starts["unsplit"].said[REFUSED]
    assert said.is_fatal
    assert "a broker splits no such segment" in str(said.refused)
    output = restarted.answers["unsplit"].output
    assert "Split operation is only permitted for segments with overflow" in output


@pytest.mark.parametrize("name", DAMAGES)
def test_salvage_saves_every_intact_batch_makes_nothing_up_and_a_broker_serves_it(
    restarted: Restarted, name: str
) -> None:
    number = PARTITIONS[name]
    whole, written = restarted.whole[number], restarted.written[number]
    assert written.items() <= whole.items()
    assert restarted.answers["saved"].served[number] == digest(written)
    data = [content for file, content in restarted.starts.starts["damaged"].before[number].items() if ".log" in file]
    intact = [(first, last) for batch, first, last in restarted.batches[number] if any(batch in each for each in data)]
    wanted = {offset for first, last in intact for offset in range(first, last + 1)} & whole.keys()
    assert wanted <= written.keys()
    result = restarted.starts.results[number]
    missing = {offset for offset in whole.keys() - written.keys() if result.start_offset <= offset < result.end_offset}
    untold = [
        offset
        for offset in missing
        if not any(
            loss.first_offset <= offset and (loss.last_offset is None or offset <= loss.last_offset)
            for loss in result.losses
        )
    ]
    assert not untold
    assert result.end_offset <= max(whole) + 2  # behind the last record there may be a marker
