"""Intact batches are found whatever lies before them, and what no checksum covers hides none."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from tests.log.odd_logs import batch, entry, log_name, message, numbered, v1_set

import brokerless
from brokerless.jobs.recovered.intact_batches import find_intact_batches
from brokerless.jobs.salvage.carve import group
from brokerless.log.storage.location import Location

MESSAGES = [entry(each, message(1, b"k%d" % each, b"value %d" % each)) for each in range(500)]
JUNK = bytes.fromhex("1dc03dc3f83abacd0dee9e02e6bb7376010100")
"""What looks like the header of a wrapper message of 233 MB."""


def found(data: bytes, tmp_path: Path, *, is_log: bool) -> list[int]:
    path = tmp_path / log_name(0)
    path.write_bytes(data)
    with Location(str(path)).open() as file:
        parts = [each for each in find_intact_batches(file, is_log=is_log) if isinstance(each, np.ndarray)]
    return [int(each) for part in parts for each in part["first"]]


@pytest.mark.parametrize("is_log", [True, False], ids=["log", "image"])
def test_junk_before_messages_hides_none(is_log: bool, tmp_path: Path) -> None:
    assert found(JUNK + b"".join(MESSAGES), tmp_path, is_log=is_log) == [*range(500)]
    chance = random.Random(1)
    for _ in range(40):
        data = chance.randbytes(chance.randint(18, 512)) + b"".join(MESSAGES)
        assert found(data, tmp_path, is_log=is_log) == [*range(500)]


def test_junk_among_messages_costs_what_it_overwrites(tmp_path: Path) -> None:
    data = bytearray(b"".join(MESSAGES))
    at = sum(map(len, MESSAGES[:100]))
    data[at : at + len(JUNK)] = JUNK
    assert found(bytes(data), tmp_path, is_log=True) == [*range(100), *range(101, 500)]


def test_another_log_after_wrappers_is_found_in_an_image(tmp_path: Path) -> None:
    data = v1_set(1000, 1009) + v1_set(1010, 1019) + b"A" * 100 + b"".join(MESSAGES[:50])
    assert found(data, tmp_path, is_log=False) == [1000, 1010, *range(50)]


def test_messages_within_a_damaged_wrapper_are_not_taken_for_others(tmp_path: Path) -> None:
    """Stored without compression in gzip, they can be read, but their offsets are relative."""
    import gzip

    payload = gzip.compress(b"".join(entry(each, message(1, b"k", b"v%d" % each)) for each in range(20)), 0, mtime=0)
    wrapper = bytearray(entry(29, message(1, None, payload, codec=1)))
    wrapper[-1] ^= 1
    data = v1_set(0, 9) + bytes(wrapper) + v1_set(30, 39)
    assert found(data, tmp_path, is_log=True) == [0, 30]


def test_a_log_that_goes_back_from_v2_to_v1_is_one_group(tmp_path: Path) -> None:
    path = tmp_path / log_name(0)
    path.write_bytes(batch(0, numbered(0, 10), epoch=3) + v1_set(10, 19) + batch(20, numbered(20, 30), epoch=4))
    with Location(str(path)).open() as file:
        intact = np.concatenate([each for each in find_intact_batches(file) if isinstance(each, np.ndarray)])
    groups, runs = group(intact)
    assert groups.tolist() == runs.tolist() == [0, 0, 0]
    assert len(list(brokerless.open(path).records())) > 0
