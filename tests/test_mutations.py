"""Real files with damage done to them: what is read is what Kafka reads, and nothing is read that was not written.

Kafka's reader ends where the chain of sizes breaks; what is read after it is what salvage saves.
"""

from __future__ import annotations

import random
import zlib
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from aiokafka.record.util import calc_crc32c
from hypothesis import given
from hypothesis import strategies as st

import brokerless
from brokerless import Finding
from brokerless.schemas import BATCHES, RECORDS
from tests.examples import examples
from tests.format import twin
from tests.golden import CONSUMERS_THROW, cases, first_at_their_offsets, of_type
from tests.jobs.exports import raw
from tests.kafka.oracle import as_line, read_logs
from tests.log import whole_batches

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
    """What is read as far as Kafka's reader gets, which ends where the chain of sizes breaks."""

    batches: list[dict[str, Any]]
    records: list[dict[str, Any]]
    errors: list[Finding]
    """Of severity error, as reading records told them; but not of an end that is no batch, where Kafka is silent."""
    verified: list[Finding]
    """The same of verifying."""


def read(path: Path) -> Read:
    log = brokerless.open(path)
    chain, end, breaks = twin.chain(path.read_bytes())
    in_chain = set(chain)
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
    assert [each["position"] for each in batches if each["position"] in in_chain] == chain
    assert len(batches) == len(chain) or any(each.kind == "batches-resume" for each in told)
    seen = {*chain, end} if breaks else in_chain
    errors = [
        [each for each in found if is_error_to_kafka(each) and each.position in seen] for found in (told, verified)
    ]
    return Read(batches[: len(chain)], [each for each in records if each["batchPosition"] in in_chain], *errors)


def is_error_to_kafka(finding: Finding) -> bool:
    return finding.severity == "error" and finding.kind not in ("no-batches", *CONSUMERS_THROW)


@examples(250)
@given(mutation=MUTATIONS)
def test_only_what_was_written_is_read(tmp_path_factory: Any, mutation: Mutation) -> None:
    data = mutated(mutation)
    path = tmp_path_factory.getbasetemp() / NAME
    path.write_bytes(data)
    found = read(path)
    chain, _, breaks = twin.chain(data)
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


DEMO = Path(__file__).parents[1] / "demo" / "data" / "orders-0" / "00000000000000000656.log"


def has_wrappers(log: Path) -> bool:
    """Whether it has compressed sets of messages, within which there are messages with checksums of their own."""
    table = brokerless.open(log).batches(["magic", "compression"]).read_all().to_pylist()
    return any(each["magic"] < 2 and each["compression"] != "none" for each in table)


WHOLE = [
    log.read_bytes()
    for log in (DEMO, *(log for each in cases("articles", "specials") for log in each.logs))
    if log.name in (NAME, DEMO.name) and log.stat().st_size < 60_000 and not list(brokerless.open(log).verify())
    if not has_wrappers(log) and log.parent.name != "batches-as-values"
]
MOST = 2**31 - 1
LOSSES = ("garbage", "zeros", "size", "cut", "insert", "end")


class Loss(NamedTuple):
    """What becomes of bytes from a place in a batch on; places and batches from 0 to 1."""

    kind: str
    batch: float
    place: float
    length: int
    size: int


def lose(data: bytes, losses: list[Loss], chance: random.Random) -> tuple[bytes, dict[int, bytes]]:
    """The damaged log, and its batches of which no byte is changed, by their positions in it."""
    positions, end, _ = twin.chain(data)
    batches = [bytearray(data[at:after]) for at, after in zip(positions, [*positions[1:], end], strict=True)]
    whole = [bytes(each) for each in batches]
    for loss in losses:
        number = int(loss.batch * len(batches))
        at, length = int(loss.place * len(batches[number])), loss.length
        while length > 0 and number < len(batches) and loss.kind in ("garbage", "zeros"):
            part = len(batches[number][at : at + length])
            batches[number][at : at + part] = bytes(part) if loss.kind == "zeros" else chance.randbytes(part)
            _change_covered(batches[number], whole[number])
            number, at, length = number + 1, 0, length - part
        if loss.kind == "size":
            batches[number][8:12] = loss.size.to_bytes(4, "big", signed=True)
        if loss.kind in ("cut", "insert"):
            _change_covered(batches[number], whole[number])
        if loss.kind == "cut" and len(batches[number]) > 30:
            del batches[number][max(at, 18) : max(at, 18) + length]
        if loss.kind == "insert":
            batches[number][max(at, 1) : max(at, 1)] = chance.randbytes(length)
        if loss.kind == "end":
            del batches[number][max(at, 18) :]  # what is shorter may be nothing but the zeros of a small offset
            del batches[number + 1 :]
    starts = [sum(map(len, batches[:number])) for number in range(len(batches))]
    return b"".join(batches), {
        at: old for at, old, new in zip(starts, whole, batches, strict=False) if old == bytes(new)
    }


def _change_covered(batch: bytearray, whole: bytes) -> None:
    """Changes a byte that is covered by the checksum, or is in it, as offsets are not."""
    if len(batch) > 20:
        batch[20] = whole[20] ^ 1


@examples(150)
@given(
    source=st.integers(0, len(WHOLE) - 1),
    losses=st.lists(
        st.builds(
            Loss,
            st.sampled_from(LOSSES),
            UNIT,
            UNIT,
            st.integers(1, 900),
            st.sampled_from([0, 13, 14, -1, 10**6, 2**31 - 1]),
        ),
        min_size=1,
        max_size=4,
    ),
    seed=st.integers(0, 1 << 30),
    jobs=st.sampled_from([1, 2]),
)
def test_every_batch_that_no_damage_touches_is_read_by_all(
    tmp_path_factory: Any, source: int, losses: list[Loss], seed: int, jobs: int
) -> None:
    """The judge is the log as it was: of each batch whose bytes are unchanged, all records; and of the others none.

    Only a lone batch where a damaged one before it, by its size, would be may be left out, if more than that size is
    wrong, as it may as well be the value of one of that one's records; so may what a wrong size leads over that happens
    to end where another batch begins. Salvage saves both."""
    directory = tmp_path_factory.mktemp("lost")
    (directory / "t-0").mkdir()
    path = directory / "t-0" / (DEMO.name if source == 0 else NAME)
    path.write_bytes(WHOLE[source])
    log = brokerless.open(path)
    every = pa.Table.from_batches(log.records(["offset", "batchPosition", "value"], control=True), None).to_pylist()
    damaged, left = lose(WHOLE[source], losses, random.Random(seed))
    chain = twin.chain(WHOLE[source])[0]
    untouched = [at for at in chain if any(WHOLE[source][at:].startswith(each) for each in left.values())]
    lone = [
        at for at, after in zip(chain, [*chain[1:], None], strict=True) if after is not None and after not in untouched
    ]
    expected = [(each["offset"], each["value"]) for each in every if each["batchPosition"] in untouched]
    may_lack = {each["offset"] for each in every if each["batchPosition"] in lone}
    if all(loss.kind == "size" for loss in losses):
        may_lack = set()
    rows = twin.chain(damaged)[0]
    if any(one < at < after for at in left for one, after in pairwise(rows)):
        may_lack = {offset for offset, _ in expected}
    path.write_bytes(damaged)
    log, told = brokerless.open(directory), list[Finding]()
    rows = log.records(["offset", "value"], control=True, on_damage=told.append, jobs=jobs).read_all().to_pylist()
    found = [(each["offset"], each["value"]) for each in rows]
    missing = {offset for offset, _ in expected} - {offset for offset, _ in found}
    assert missing <= may_lack
    assert found == [each for each in expected if each[0] not in missing]
    if len(found) < len(every):
        assert any(each.severity != "info" for each in told)
    valid = sum(log.batches(["isValid"], on_damage=told.append).read_all()["isValid"].to_pylist())
    assert valid == len({each["batchPosition"] for each in every if (each["offset"], each["value"]) in found})
    middle = found[len(found) // 2][0] if found else 0
    rows = log.records(["offset"], start_offset=middle, control=True, on_damage=told.append).read_all().to_pylist()
    assert [each["offset"] for each in rows] == [offset for offset, _ in found if offset >= middle]
    out = tmp_path_factory.mktemp("out")
    log.salvage(str(out))
    saved = brokerless.open(str(out)).records(["offset", "value"], control=True).read_all().to_pylist()
    assert [(each["offset"], each["value"]) for each in saved] == expected


TEN = [whole_batches.batch(10 * each, 10, value=b"%d" % each).tobytes() for each in range(5)]


def larger(data: bytes, by: int = 1 << 24) -> bytes:
    return data[:8] + (int.from_bytes(data[8:12], "big") + by).to_bytes(4, "big") + data[12:]


def wrong_within(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


ALONE = {
    "past the end, then cut off": [TEN[0], larger(TEN[1]), TEN[2], TEN[3][:-30]],
    "past the end, then cut off in a header": [TEN[0], larger(TEN[1]), TEN[2], TEN[3][:20]],
    "past the end, a checksum after it": [TEN[0], larger(TEN[1]), wrong_within(TEN[2]), TEN[3]],
    "past the end, another after it": [TEN[0], larger(TEN[1]), larger(TEN[2]), TEN[3]],
    "past the end, a checksum after the next": [TEN[0], larger(TEN[1]), TEN[2], wrong_within(TEN[3]), TEN[4]],
    "past the end and within, then cut off": [TEN[0], wrong_within(larger(TEN[1])), TEN[2], TEN[3][:-30]],
    "into the next, a checksum after that": [TEN[0], larger(TEN[1], 64), TEN[2], wrong_within(TEN[3]), TEN[4]],
    "into the next, another after that": [TEN[0], larger(TEN[1], 64), TEN[2], larger(TEN[3]), TEN[4]],
    "into the next, then cut off": [TEN[0], larger(TEN[1], 64), TEN[2], TEN[3][:-30]],
    "offsets missing before and after it": [TEN[0], larger(TEN[2]), TEN[4], whole_batches.batch(70).tobytes()[:-1]],
}


@pytest.mark.parametrize("name", ALONE)
def test_a_batch_that_stands_alone_between_two_damages_is_read_by_all(name: str, tmp_path: Path) -> None:
    """The judge is the batches as they were."""
    path = tmp_path / "from" / "t-0" / NAME
    path.parent.mkdir(parents=True)
    path.write_bytes(b"".join(ALONE[name]))
    wanted = [10 * number + each for number, batch in enumerate(TEN) if batch in ALONE[name] for each in range(10)]
    log, ignored = brokerless.open(tmp_path / "from"), list[Finding]()
    for jobs in (1, 2):
        rows = log.records(["offset", "value"], on_damage=ignored.append, jobs=jobs).read_all().to_pylist()
        assert [(each["offset"], each["value"]) for each in rows] == [(each, b"%d" % (each // 10)) for each in wanted]
    for start in range(0, 50, 10):
        rows = log.records(["offset"], start_offset=start, on_damage=ignored.append).read_all().to_pylist()
        assert [each["offset"] for each in rows] == [each for each in wanted if each >= start]
    query = 'select "offset" from t order by 1'
    assert log.sql(query, on_damage=ignored.append).read_all()["offset"].to_pylist() == wanted
    log.export(tmp_path / "out", on_damage=ignored.append)
    assert [each["offset"] for each in raw(tmp_path / "out")] == wanted
    log.salvage(str(tmp_path / "saved"))
    assert offsets_read(tmp_path / "saved") == wanted
    at = len(ALONE[name][0])
    errors = {each.position: each.kind for each in log.verify() if each.severity == "error"}
    is_torn = "past" in name or "missing" in name
    assert errors[at] == ("batch-size-invalid" if is_torn else "checksum-mismatch")


def offsets_read(path: Path) -> list[int]:
    records = brokerless.open(path).records(["offset"], control=True, on_damage=lambda _: None)
    return records.read_all()["offset"].to_pylist()


def test_batches_in_values_are_not_taken_for_those_of_the_log(tmp_path: Path) -> None:
    """Wherever the log ends, as it does while a broker writes to it, and whichever bit of a batch is wrong."""
    (log,) = (each.log for each in cases("specials") if each.name.endswith("batches-as-values"))
    data = log.read_bytes()
    positions, end, _ = twin.chain(data)
    every = brokerless.open(log).records(["offset", "batchPosition"], control=True).read_all().to_pylist()
    path = tmp_path / NAME
    for at in range(1, end, 3):
        path.write_bytes(data[:at])
        whole = [start for start, after in zip(positions, [*positions[1:], end], strict=True) if after <= at]
        assert offsets_read(path) == [each["offset"] for each in every if each["batchPosition"] in whole]
    for start, after in zip(positions, [*positions[1:], end], strict=True):
        others = [each["offset"] for each in every if each["batchPosition"] != start]
        for at in (start + 17, start + 30, after - 1, *range(start + 61, after, 40)):
            damaged = bytearray(data)
            damaged[at] ^= 0x40
            path.write_bytes(damaged)
            assert offsets_read(path) == others


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
