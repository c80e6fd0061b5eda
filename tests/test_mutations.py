"""Real files with damage done to them: what is read is what Kafka reads, and nothing is read that was not written."""

from __future__ import annotations

import random
import zlib
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from aiokafka.record.util import calc_crc32c
from hypothesis import given, settings
from hypothesis import strategies as st

import brokerless
from brokerless import Finding
from brokerless.schemas import BATCHES, RECORDS
from tests.format import twin
from tests.golden import CONSUMERS_THROW, cases, first_at_their_offsets, of_type
from tests.kafka.oracle import as_line, read_logs

SOURCES = [
    log.read_bytes()
    for each in cases("articles", "specials", "framing")
    for log in each.logs
    if log.stat().st_size < 6000 and "claims" not in each.name
]
NAME = f"{0:020}.log"
KINDS = ("flip", "set", "cut", "put", "twice", "zeros", "end")


class Edit(NamedTuple):
    kind: str
    place: float
    """In the file, or in one batch's header and first bytes: from 0 to 1."""
    near: float | None
    """Which batch's start the place is near, if any: from 0 to 1."""
    length: int
    byte: int


class Mutation(NamedTuple):
    source: int
    edits: list[Edit]
    repair: float
    """The share of batches whose checksum is set right again, so that what is wrong is in them."""


UNIT = st.floats(0, 1, exclude_max=True)
MUTATIONS = st.builds(
    Mutation,
    st.integers(0, len(SOURCES) - 1),
    st.lists(
        st.builds(
            Edit, st.sampled_from(KINDS), UNIT, st.one_of(st.none(), UNIT), st.integers(1, 90), st.integers(0, 255)
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from([0.0, 0.5, 1.0]),
)


def random_mutation(chance: random.Random) -> Mutation:
    edits = [
        Edit(
            chance.choice(KINDS),
            chance.random(),
            chance.random() if chance.random() < 0.7 else None,
            chance.choice([1, 1, 2, 4, 8, 61, chance.randint(1, 300)]),
            chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF, chance.randint(0, 255)]),
        )
        for _ in range(chance.choice([1, 1, 1, 2, 3]))
    ]
    return Mutation(chance.randrange(len(SOURCES)), edits, chance.choice([0.0, 0.5, 1.0]))


def mutated(mutation: Mutation) -> bytes:
    data = bytearray(SOURCES[mutation.source])
    for edit in mutation.edits:
        positions = twin.chain(bytes(data))[0] or [0]
        start = 0 if edit.near is None else positions[int(edit.near * len(positions))]
        at = min(start + int(edit.place * (len(data) if edit.near is None else 90)), max(len(data) - 1, 0))
        match edit.kind:
            case "flip":
                data[at : at + 1] = bytes(byte ^ 1 << edit.byte % 8 for byte in data[at : at + 1])
            case "set":
                data[at : at + 1] = bytes([edit.byte])
            case "cut":
                del data[at : at + edit.length]
            case "put":
                data[at:at] = bytes([edit.byte]) * edit.length
            case "twice":
                data[at:at] = data[at : at + edit.length]
            case "zeros":
                data[at : at + edit.length] = bytes(len(data[at : at + edit.length]))
            case _:
                del data[at:]
    repaired(data, mutation.repair)
    return bytes(data)


def repaired(data: bytearray, share: float) -> None:
    """Sets the checksums of some batches right."""
    positions, end, _ = twin.chain(bytes(data))
    for number, (at, after) in enumerate(zip(positions, [*positions, end][1:], strict=True)):
        if (number * 7 + len(data)) % 10 >= 10 * share:
            continue
        if data[at + 16] < 2 or data[at + 16] > 127:
            data[at + 12 : at + 16] = zlib.crc32(data[at + 16 : after]).to_bytes(4, "big")
        elif after - at >= 61:
            data[at + 17 : at + 21] = calc_crc32c(bytes(data[at + 21 : after])).to_bytes(4, "big")


class Read(NamedTuple):
    batches: list[dict[str, Any]]
    records: list[dict[str, Any]]
    errors: list[Finding]
    """Of severity error, as reading records told them; but not of an end that is no batch, where Kafka is silent."""
    verified: list[Finding]
    """The same of verifying."""


def read(path: Path) -> Read:
    log = brokerless.open(path)
    told: list[Finding] = []
    tables = [pa.Table.from_batches(log.batches(on_damage=lambda _: None), BATCHES)]
    tables.append(pa.Table.from_batches(log.records(control=True, on_damage=told.append), RECORDS))
    for table in tables:
        table.validate(full=True)
    batches, records = (
        pa.table(
            [column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column for column in table.columns],
            table.column_names,
        ).to_pylist()
        for table in tables
    )
    verified = list(log.verify())
    return Read(batches, records, *(list(filter(is_error_to_kafka, found)) for found in (told, verified)))


def is_error_to_kafka(finding: Finding) -> bool:
    return finding.severity == "error" and finding.kind not in ("no-batches", *CONSUMERS_THROW)


@settings(max_examples=250)
@given(mutation=MUTATIONS)
def test_only_what_was_written_is_read(tmp_path_factory: Any, mutation: Mutation) -> None:
    data = mutated(mutation)
    path = tmp_path_factory.getbasetemp() / NAME
    path.write_bytes(data)
    found = read(path)
    chain, _, breaks = twin.chain(data)
    assert [batch["position"] for batch in found.batches] == chain
    valid = {batch["position"] for batch in found.batches if batch["isValid"]}
    assert {record["batchPosition"] for record in found.records} <= valid
    told = {finding.position for finding in found.errors}
    assert set(chain) - valid <= told
    assert told <= {*chain, *([twin.chain(data)[1]] if breaks else [])}
    for finding in [*found.errors, *found.verified]:
        assert finding.file == str(path)
        assert finding.position is not None
        assert 0 <= finding.position <= len(data)
        assert "\n" not in str(finding)
    assert min(told, default=None) == (found.verified[0].position if found.verified else None)


def check_against_kafka(path: Path, lines: list[dict[str, Any]]) -> None:
    found = read(path)
    theirs = list(of_type(lines, "batch"))
    assert len(found.batches) == len(theirs)
    for ours, line in zip(found.batches, theirs, strict=True):
        # Kafka has no getter for the base timestamp of such a batch; the harness reads the bytes all the same.
        unsaid = {"file", "baseTimestamp"} if line["magic"] > 2 or line["sizeInBytes"] < 61 else {"file"}
        for name in line.keys() & ours.keys() - unsaid:
            assert ours[name] == line[name], (name, ours, line)

    # Inside of a wrapper, a wrong checksum is found before what else may be wrong with that message.
    wrong_inside = {each.position for each in brokerless.open(path).verify() if each.kind in CONSUMERS_THROW[:1]}
    errors = [line for line in of_type(lines, "error") if line["phase"] != "recordsNonStreaming"]
    errors = [line for line in errors if line["position"] not in wrong_inside]
    assert [finding.position for finding in found.errors] == [line["position"] for line in errors]
    assert [finding.position for finding in found.verified][: len(errors)] == [line["position"] for line in errors]

    compressed = {line["position"] for line in theirs if line["compression"] != "none"}
    by_buffers = compressed & {line["position"] for line in errors if line["phase"] == "records"} | wrong_inside
    kafkas: list[dict[str, Any]] = []
    for line in first_at_their_offsets(lines):
        kept = {name: line[name] for name in line if name not in ("type", "control")}
        kept["headers"] = [list(each.values()) if isinstance(each, dict) else each for each in line["headers"]]
        kafkas.append({name: kept[name] for name in kept if name not in ("recordInvalid", "controlError")})
    ours = [as_line(record) for record in found.records]
    assert [record for record in ours if record["batchPosition"] not in by_buffers] == [
        record for record in kafkas if record["batchPosition"] not in by_buffers
    ]
    for position in by_buffers - wrong_inside:
        pairs = zip(
            [record for record in ours if record["batchPosition"] == position],
            [record for record in kafkas if record["batchPosition"] == position],
            strict=False,
        )
        assert all(our == their for our, their in pairs)


def test_damaged_files_are_read_as_kafka_reads_them(kafka_jars: Path, tmp_path: Path) -> None:
    chance = random.Random(20_260_701)
    mutations = {}
    for number in range(300):
        mutation = random_mutation(chance)
        path = tmp_path / str(number) / NAME
        path.parent.mkdir()
        path.write_bytes(mutated(mutation))
        mutations[path] = mutation
    failures = []
    for path, lines in read_logs(mutations).items():
        try:
            check_against_kafka(path, lines)
        except AssertionError as error:
            failures.append((mutations[path], path, str(error)[:2000]))
    assert not failures
