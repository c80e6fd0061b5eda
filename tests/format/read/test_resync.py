"""In bytes of which nothing is known, the next true batch is found, and nothing else is taken for one."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from tests.examples import examples
from tests.format import twin
from tests.format.twin import HEADER, Header, write_batch, write_record
from tests.golden import cases
from tests.log import odd_logs, whole_batches

from brokerless.format.read.batch_candidate_kernels import find_candidates
from brokerless.format.read.batch_headers import checksums_match, read_headers
from brokerless.format.read.batch_scan import scan_batches
from brokerless.format.read.resync import Continuation, find_batch, find_continuation

LOGS = [log.read_bytes() for each in cases("formats") for log in each.logs if log.stat().st_size < 20_000]
LOGS += [log.read_bytes() for each in cases("articles") for log in each.logs if log.name.endswith(".log")]
NOISE = random.Random(3).randbytes(1 << 20)


def find(data: bytes, start: int = 0) -> int | None:
    return find_batch(np.frombuffer(data, np.uint8), start)


def is_true(data: bytes, position: int) -> bool:
    buffer = np.frombuffer(data, np.uint8)
    return bool(checksums_match(buffer, read_headers(buffer, np.array([position])))[0])


def plausible(size: int, **fields: int) -> bytes:
    """A v2 header that makes sense, of a batch of so many bytes, whose checksum is wrong."""
    header = Header(5, size - 12, 0, 2, 0xDEAD, 0, 3, 1, 1, -1, -1, -1, 4)
    return HEADER.pack(*header._replace(**fields))


@pytest.mark.parametrize("number", range(len(LOGS)))
def test_from_any_byte_the_next_batch_is_the_next_of_the_chain(number: int) -> None:
    data = LOGS[number]
    positions = twin.chain(data)[0]
    for start in sorted({0, 1, *range(0, len(data), 37), *positions, *(position + 1 for position in positions)}):
        assert find(data, start) == next((position for position in positions if position >= start), None)


def test_there_is_no_batch_in_noise_zeros_or_text() -> None:
    for data in (NOISE, bytes(1 << 20), b"2024-01-01 INFO nothing to see here\n" * 30_000, b"", b"\2" * 1000):
        assert find(data) is None


@pytest.mark.parametrize("garbage", [1, 16, 17, 60, 61, 1000])
def test_a_batch_is_found_after_garbage_and_zeros(garbage: int) -> None:
    for data in LOGS:
        size = (twin.chain(data)[0] + [len(data)])[1]
        for before in (NOISE[:garbage], bytes(garbage), b"\x02" * garbage):
            assert find(before + data[:size]) == garbage
            assert find(before + data[: size - 1]) is None


def test_a_header_that_makes_sense_is_not_enough() -> None:
    true = write_batch(write_record(b"key", b"value"))
    false = plausible(70) + bytes(9)
    assert find(false) is None
    assert find(false + true) == len(false)
    assert find(false * 1000 + true) == 1000 * len(false)  # more of them than are looked at in one call
    covering = plausible(len(true) + 61)
    assert find(covering + true) == len(covering)  # one that claims the true one's bytes hides nothing


def test_many_headers_that_claim_all_that_follows_do_not_take_for_ever() -> None:
    true = write_batch(write_record(b"key", b"value"))
    count = 40_000
    size = 61 * count + len(true)
    false = b"".join(plausible(size - 61 * number) for number in range(count))  # 50 GB of checksums
    assert find(false + true) == len(false)


def test_a_true_batch_inside_of_a_false_one_is_found_and_of_a_true_one_is_not_reached_first() -> None:
    inner = write_batch(write_record(b"inner", b"value"), base_offset=9)
    outer = write_batch(write_record(None, inner))
    assert find(outer) == 0
    assert find(outer, 1) == len(outer) - len(inner) - 1  # a record's value, before its header count
    broken = outer[:30] + b"\xff" + outer[31:]
    assert find(broken) == len(outer) - len(inner) - 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"base_offset": -1},
        {"count": -1},
        {"count": 6},
        {"last_offset_delta": -1},
        {"attributes": 5},
        {"attributes": 0x80},
        {"magic": 3},
    ],
    ids=str,
)
def test_what_no_broker_writes_is_not_taken_for_a_batch_though_its_checksum_is_right(wrong: dict[str, int]) -> None:
    whole = {"last_offset_delta": 3, "count": 4}
    assert find(write_batch(b"", **whole)) == 0
    assert find(write_batch(b"", **(whole | wrong))) is None


@examples(150)
@given(
    data=st.sampled_from(LOGS),
    edits=st.lists(
        st.tuples(st.floats(0, 1, exclude_max=True), st.binary(max_size=30), st.integers(0, 30)), max_size=4
    ),
    start=st.integers(0, 300),
)
def test_after_damage_the_first_intact_batch_is_found(
    data: bytes, edits: list[tuple[float, bytes, int]], start: int
) -> None:
    positions = twin.chain(data)[0]
    batches = [data[a:b] for a, b in zip(positions, [*positions[1:], len(data)], strict=True)]
    for place, put, cut in edits:
        at = int(place * len(data))
        data = data[:at] + put + data[at + cut :]
    found = find(data, start)
    intact = [at for batch in batches if (at := data.find(batch, start)) >= 0]
    if found is None:
        assert not intact
    else:
        assert is_true(data, found)
        assert not intact or found <= min(intact)
        assert found >= start


def test_old_messages_with_any_key_length_that_fits_are_found() -> None:
    for log in LOGS:
        if log[16] < 2:
            assert find(b"\0" * 5 + log) == 5
    message = bytearray(next(log for log in LOGS if log[16] == 0))
    struct.pack_into(">i", message, 18, 2**30)
    assert find(bytes(message)) != 0


def makes_sense(data: bytes, at: int) -> bool:
    """Whether a header may begin at a place, one test after the other."""
    offset, size, magic = *struct.unpack_from(">qi", data, at), data[at + 16]
    if offset < 0 or magic > 2 or size > len(data) - at - 12 or size < (14, 22, 49)[magic]:
        return False
    if magic == 2:
        delta, count = struct.unpack_from(">i", data, at + 23)[0], struct.unpack_from(">i", data, at + 57)[0]
        attributes = struct.unpack_from(">H", data, at + 21)[0]
        return attributes < 128 and attributes & 7 <= 4 and 0 <= count <= delta + 1 and delta >= 0
    least = 14 + 8 * magic
    key = struct.unpack_from(">i", data, at + 18 + 8 * magic)[0]
    if data[at + 17] >= (8, 16)[magic] or not -1 <= key <= size - least:
        return False
    value = struct.unpack_from(">i", data, at + 22 + 8 * magic + max(key, 0))[0]
    return value >= -1 and least + max(key, 0) + max(value, 0) == size


def test_all_headers_that_make_sense_are_candidates_whatever_is_around_them() -> None:
    chance = np.random.default_rng(11)
    values = np.array([0, 1, 2, 14, 22, 60, 255], np.uint8)
    magics: set[int] = set()
    count = 0
    for size in (20, 26, 60, 66, 73, 100_000):
        data = chance.choice(values, size, p=[0.8, 0.05, 0.05, 0.04, 0.02, 0.02, 0.02])
        raw, positions = data.tobytes(), np.empty(size, np.int64)
        count, _ = find_candidates(data, 0, size, 0, positions)
        found = positions[:count].tolist()
        assert found == [at for at in range(size - 25) if makes_sense(raw, at)]
        magics |= {int(data[at + 16]) for at in found}
    assert count > 500
    assert magics == {0, 1, 2}


def continuation(data: bytes, base_offset: int = 0) -> Continuation | None:
    """Where a log goes on after its chain of sizes breaks."""
    buffer = np.frombuffer(data, np.uint8)
    scan = scan_batches(buffer)

    def read(position: int, length: int) -> NDArray[np.uint8]:
        return buffer[position : position + length]

    return find_continuation(read, len(data), read_headers(buffer, scan.positions), scan.stopped_at, base_offset)


def made(first: int, count: int = 3, value: bytes = b"value", epoch: int = 5) -> bytes:
    return whole_batches.batch(first, count, value=value, epoch=epoch).tobytes()


BEFORE, AFTER = made(100) + made(103), made(110) + made(113)


@pytest.mark.parametrize("junk", [bytes(200), b"junk" * 40, bytes(11) + b"\x0d" + bytes(30)])
def test_a_log_goes_on_at_the_next_intact_batch(junk: bytes) -> None:
    found = continuation(BEFORE + junk + AFTER)
    assert found == Continuation(len(BEFORE), len(BEFORE + junk), 110, 106)


@pytest.mark.parametrize("size", [0, 13, -1, 5000, 2**31 - 1])
def test_a_wrong_size_hides_no_batch(size: int) -> None:
    wrong = bytearray(made(106, 4))
    wrong[8:12] = size.to_bytes(4, "big", signed=True)
    found = continuation(BEFORE + wrong + AFTER)
    assert found is not None
    assert (found.position, found.first) == (len(BEFORE + wrong), 110)


def test_what_a_wrong_size_led_over_is_found() -> None:
    wrong = bytearray(made(106, 4))
    wrong[8:12] = (len(wrong) - 12 + 100).to_bytes(4, "big")  # into the batch after it
    assert continuation(BEFORE + wrong + AFTER) == Continuation(len(BEFORE), len(BEFORE + wrong), 110, 106)


@pytest.mark.parametrize(
    "other",
    [
        made(90) + made(93),
        made(90) + made(103, 2),
        made(110, epoch=4) + made(113, epoch=4),
        made(1 << 40) + made((1 << 40) + 3),
    ],
    ids=["lower offsets", "an offset that was there", "a lower epoch", "offsets of no segment"],
)
def test_a_batch_that_cannot_follow_is_not_taken(other: bytes) -> None:
    assert continuation(BEFORE + b"junk" * 40 + other) is None
    found = continuation(BEFORE + b"junk" * 40 + other + AFTER)
    assert found is not None
    assert found.first == 110


def test_one_wrong_offset_before_the_damage_hides_nothing() -> None:
    """No checksum covers it."""
    misplaced = (1 << 20).to_bytes(8, "big") + made(103)[8:]
    found = continuation(made(100) + misplaced + bytes(100) + AFTER)
    assert found is not None
    assert found.first == 110


@pytest.mark.parametrize("end", [0, 1, 40, 200])
def test_a_batch_in_a_value_of_one_that_is_cut_off_is_not_taken(end: int) -> None:
    """As of a log that a broker is writing to; its offsets may be anything."""
    following = made(107) + made(110, value=b"a longer value")
    for value in (made(110), made(106, 1), made(107), made(90), made(106, 1) + b"and so on" * 20, following):
        torn = made(106, 1, value + b"the rest of the value" * 15)
        assert continuation(BEFORE + torn[: len(torn) - 316 + end]) is None
        wrong = bytearray(torn)
        wrong[-1] ^= 1
        assert continuation(BEFORE + wrong + b"junk" * 40) is None
        found = continuation(BEFORE + wrong + b"junk" * 40 + AFTER)
        assert found is not None
        assert (found.position, found.first) == (len(BEFORE + wrong) + 160, 110)


@pytest.mark.parametrize("rest", [b"", made(110)[:-5]])
def test_a_part_of_a_log_in_a_value_is_not_taken_where_the_damaged_batch_ends_well(rest: bytes) -> None:
    """Its records' lengths are wrong, but not its size."""
    damaged = bytearray(made(106, 3, b"before" + made(109, 1) + made(110)[:-7]))
    damaged[61:63] = b"\xff\xff"
    found = continuation(BEFORE + damaged + rest)
    assert found is None or found.position >= len(BEFORE + damaged)


def test_batches_in_values_are_not_taken_wherever_their_batch_is_cut_off() -> None:
    """Their offsets are those that come next."""
    for count, value in ((4, made(110) + made(113)), (1, made(107)), (3, b"before" + made(109) + made(112)[:-7])):
        torn = made(106, count, value)
        for end in range(1, len(torn)):
            assert continuation(BEFORE + torn[:end]) is None


def test_a_message_follows_a_batch_whose_size_is_wrong() -> None:
    """As where message.format.version was lowered."""
    wrong = bytearray(made(106, 4))
    wrong[8:12] = (2**31 - 1).to_bytes(4, "big")
    follows = odd_logs.entry(110, odd_logs.message(1, None, b"")) + odd_logs.entry(111, odd_logs.message(1, None, b""))
    for end in (len(follows) // 2, len(follows)):
        found = continuation(BEFORE + wrong + follows[:end])
        assert found is not None
        assert (found.position, found.first) == (len(BEFORE + wrong), 110)


def resized(data: bytes, by: int) -> bytes:
    """A batch whose size alone is wrong."""
    return data[:8] + (int.from_bytes(data[8:12], "big") + by).to_bytes(4, "big") + data[12:]


def wrong_within(data: bytes) -> bytes:
    return data[:-1] + bytes([data[-1] ^ 1])


DAMAGED, NEXT, LAST = made(106, 4), made(110, 2), made(112)
MESSAGES = [odd_logs.entry(each, odd_logs.message(1, None, b"a value")) for each in (110, 111)]


@pytest.mark.parametrize("by", [40, 1 << 24])
@pytest.mark.parametrize("rest", [NEXT + LAST[:-1], NEXT + LAST[:30], NEXT + LAST[:9], NEXT + wrong_within(LAST)])
def test_a_lone_batch_is_found_where_one_ends_whose_size_alone_is_wrong(by: int, rest: bytes) -> None:
    """By its checksum, whatever the offset after it, as records between them may be removed."""
    for removed in (b"", made(106, 1)):
        wrong = resized(made(107, 3) if removed else DAMAGED, by)
        found = continuation(BEFORE + wrong + rest)
        assert found == Continuation(len(BEFORE), len(BEFORE + wrong), 110, 106)
    later = made(120, 2) + LAST[:-1]
    found = continuation(BEFORE + resized(DAMAGED, by) + later)
    assert found is not None
    assert found.first == 120


@pytest.mark.parametrize("following", [wrong_within(NEXT), resized(NEXT, 1 << 24), resized(NEXT, 26 - len(NEXT))])
def test_where_such_a_batch_ends_a_damaged_one_may_follow(following: bytes) -> None:
    for before in (BEFORE, made(90) + made(93)):
        found = continuation(before + resized(DAMAGED, 1 << 24) + following + LAST)
        assert found is not None
        assert (found.position, found.first) == (len(before + DAMAGED), 110)


def test_a_lone_message_is_found_where_one_ends_whose_size_alone_is_wrong() -> None:
    wrong = resized(odd_logs.entry(106, odd_logs.message(1, None, b"a value")), 1 << 24)
    found = continuation(BEFORE + wrong + MESSAGES[0] + MESSAGES[1][:-1])
    assert found is not None
    assert (found.position, found.first) == (len(BEFORE + wrong), 110)


@pytest.mark.parametrize("last", [LAST[:-1], LAST[:20], wrong_within(LAST)])
def test_a_lone_batch_is_found_if_its_offsets_and_those_of_the_next_header_continue_the_damaged_one(
    last: bytes,
) -> None:
    wrong = wrong_within(resized(DAMAGED, 1 << 24))
    found = continuation(BEFORE + wrong + NEXT + last)
    assert found is not None
    assert (found.position, found.first) == (len(BEFORE + wrong), 110)
    assert continuation(BEFORE + wrong + made(111, 1) + last) is None
    assert continuation(BEFORE + wrong + made(110, 1) + last) is None
