"""Where reading a range of offsets ends: the same however much is read at once, and by however many threads."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.examples import usual_part
from tests.log import whole_batches

import brokerless
from brokerless import Finding
from brokerless.format.read import one_pass
from brokerless.log import partition, segment
from brokerless.log.positions import ENDING, ends_range
from brokerless.log.storage.location import Location

T = 1_600_000_000_000
Found = tuple[list[int], list[Finding]]


def read_as(monkeypatch: pytest.MonkeyPatch, log: Path, step: int, *, jobs: int, passes: bool, **options: Any) -> Found:
    """The offsets and findings of a range, read in chunks of ``step`` bytes, if they are not larger. ``passes``: in one
    pass."""
    with monkeypatch.context() as patch:
        for name, size in (("STEP", step), ("WINDOW", 8 * step), ("FIRST_WINDOW", 8 * step), ("LEAST_WINDOW", step)):
            patch.setattr(segment, name, size)
        patch.setattr(segment, "ONE_PASS_FROM", 0 if passes else 1 << 40)
        for name in ("_FIRST", "_MOST"):
            patch.setattr(one_pass, name, step)
        patch.setattr(partition, "_PART_OF_THREADS", 4 * step)
        patch.setattr(partition, "_WINDOW_OF_THREADS", step)
        patch.setattr(partition, "THREADS_FROM", 0)
        findings: list[Finding] = []
        reader = brokerless.open(log).records(["offset"], jobs=jobs, on_damage=findings.append, **options)
        return reader.read_all()["offset"].to_pylist(), findings


def write_log(log: Path, batches: list[bytearray]) -> Path:
    log.parent.mkdir(parents=True)
    log.write_bytes(b"".join(batches))
    return log


def damaged_log(log: Path, chance: random.Random) -> int:
    """Write a log of which some batches are damaged; return where it ends."""
    batches, end = list[bytearray](), 0
    for _ in range(chance.randrange(5, 50)):
        count, value = chance.randrange(1, 6), b"v" * chance.choice((5, 5, 100))
        batches.append(bytearray(whole_batches.batch(end, count, T + end, value=value)))
        end += count + chance.choice((0, 0, 0, 0, 3))
    for _ in range(chance.choice((1, 2, 3, 6))):
        at = chance.randrange(len(batches))
        one = batches[at]
        match chance.choice(("flip", "flip", "header", "offset", "offsets", "size", "lose", "zeros", "repeat")):
            case "flip" if one:
                one[chance.randrange(len(one))] ^= 1 << chance.randrange(8)
            case "header" if len(one) >= 61:
                one[chance.randrange(61)] ^= 1 << chance.randrange(8)
            case "offset":
                one[:8] = chance.choice((0, end, 10**7)).to_bytes(8, "big")
            case "offsets":
                for each in batches[at : at + 3]:
                    each[:8] = (10**7 + at).to_bytes(8, "big")
            case "size":
                one[8:12] = chance.choice((0, 10, len(one) + 90)).to_bytes(4, "big")
            case "lose" if one:
                del one[chance.randrange(len(one)) :][: chance.randrange(5)]
            case "zeros":
                one[:] = bytes(len(one))
            case "repeat":
                batches.insert(at, bytearray(one))
            case _:
                pass
    write_log(log, [*batches, bytearray(chance.choice((0, 0, 90)))])
    return end


@pytest.mark.parametrize("seed", range(usual_part(80)))
def test_a_damaged_range_is_the_same_by_chunks_of_any_size_and_any_number_of_threads(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    log = tmp_path / "t-0" / f"{0:020}.log"
    end = damaged_log(log, chance)
    first, last = sorted((chance.randrange(end + 2), chance.randrange(end + 2)))
    for options in (
        {"end_offset": last},
        {"start_offset": first, "end_offset": last},
        {"isolation": "read_committed", "end_offset": last},
        {"start_timestamp": T + first, "end_timestamp": T + last},
    ):
        smallest = read_as(monkeypatch, log, 50, jobs=1, passes=False, **options)
        for step, jobs, passes in ((500, 1, False), (1 << 20, 1, True), (300, 2, True), (400, 4, False)):
            assert read_as(monkeypatch, log, step, jobs=jobs, passes=passes, **options) == smallest, (step, options)


@pytest.mark.parametrize("jobs", [1, 4])
@pytest.mark.parametrize("step", [50, 1 << 20])
def test_damage_after_the_range_is_not_reported(
    step: int, jobs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [bytearray(whole_batches.batch(10 * each, 10)) for each in range(40)]
    for each in (4, 5, 9):
        batches[each][-1] ^= 1
    log = write_log(tmp_path / "t-0" / f"{0:020}.log", batches)
    for end, damaged in ((40, []), (41, [40]), (50, [40]), (51, [40, 50]), (90, [40, 50]), (91, [40, 50, 90])):
        offsets, findings = read_as(monkeypatch, log, step, jobs=jobs, passes=True, end_offset=end)
        assert offsets == [each for each in range(end) if each // 10 not in (4, 5, 9)]
        assert [each.offset for each in findings] == damaged


def test_a_range_ends_at_many_batches_after_it(tmp_path: Path) -> None:
    """No checksum covers the offset of a batch, so that few may be damaged."""
    count = ENDING + 10
    batches = [bytearray(whole_batches.batch(10 * each, 10)) for each in range(count)]
    batches[2][:8] = (10**7).to_bytes(8, "big")
    log = write_log(tmp_path / "t-0" / f"{0:020}.log", batches)
    size = len(batches[0])
    with Location(str(log)).open() as file:
        assert [at for at in range(count) if ends_range(file, at * size, 50)] == [*range(5, count - 1)]
        assert [at for at in range(count) if ends_range(file, at * size, 20)] == [*range(2, count - 1)]


@pytest.mark.parametrize("damaged", [1, 2, ENDING - 1])
def test_records_after_batches_with_damaged_offsets_are_read(
    damaged: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    batches = [bytearray(whole_batches.batch(10 * each, 10)) for each in range(damaged + 4)]
    for each in batches[1 : 1 + damaged]:
        each[:8] = (int.from_bytes(each[:8], "big") + (1 << 20)).to_bytes(8, "big")
    log = write_log(tmp_path / "t-0" / f"{0:020}.log", batches)
    intact = [*range(10), *range(10 * damaged + 10, 10 * damaged + 40)]
    for step in (50, 1 << 20):
        offsets, _ = read_as(monkeypatch, log, step, jobs=1, passes=False, end_offset=10 * damaged + 40)
        assert offsets == intact, step
