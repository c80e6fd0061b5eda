"""Batches out of bytes of which nothing is known: all that are there, and none that is not."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from tests.golden import cases, of_type
from tests.jobs.salvage.test_job import CLEAN, records

import brokerless
from brokerless.findings import Finding
from brokerless.jobs.salvage.carve import Carving, carve
from brokerless.log.commit.partition_writer import output_directory
from brokerless.log.config import LogConfig
from brokerless.log.storage.location import Location


def refuse(finding: Finding) -> None:
    pytest.fail(str(finding))


def test_batches_are_carved_out_of_a_disk(tmp_path: Path) -> None:
    chance = random.Random(5)
    names = ["segments-0", "txn-0", "codec-lz4-1", "compacted-gzip-0"]
    logs = [log for name in names for log in sorted((CLEAN / name).glob("*.log")) if log.stat().st_size]
    image = bytearray(chance.randbytes(300_000))
    for log in logs:
        image += log.read_bytes() + chance.randbytes(chance.randint(1, 5000)) + bytes(chance.randint(0, 9000))
    path = tmp_path / "disk.img"
    path.write_bytes(image)
    carved = list(
        carve([Carving(Location(str(path)), output_directory(Location.of(tmp_path / "to")), LogConfig())], refuse)
    )
    found = [records(tmp_path / "to" / f"carved-{each.partition}") for each in carved]
    for name in names[:3]:
        assert records(CLEAN / name) in found
    compacted = records(CLEAN / names[3])
    assert sum(each.items() <= compacted.items() for each in found) == len(found) - 3
    assert sum(len(each) for each in found[3:]) == len(compacted)
    assert sum(each.bytes for each in carved) == sum(log.stat().st_size for log in logs)
    assert not [each for each in brokerless.open(tmp_path / "to").verify() if each.severity != "info"]
    assert len({path.read_text() for path in (tmp_path / "to").glob("*/partition.metadata")}) == 1


@pytest.mark.parametrize("to", ["orders-0", "orders-0/inner"])
def test_nothing_is_written_into_the_partition_that_is_read(tmp_path: Path, to: str) -> None:
    source = tmp_path / "orders-0"
    source.mkdir()
    (source / f"{0:020}.log").write_bytes(b"")
    with pytest.raises(brokerless.UsageError, match="which is read; write to another directory"):
        brokerless.carve(source / f"{0:020}.log", to=tmp_path / to)
    assert [each.name for each in source.iterdir()] == [f"{0:020}.log"]


@pytest.mark.slow(reason="much chance")
def test_nothing_is_carved_out_of_chance(tmp_path: Path) -> None:
    image = bytearray(np.random.default_rng(7).bytes(200_000_000))
    chance = random.Random(7)
    near = 0
    for each in cases("formats"):
        data = each.log.read_bytes()
        for batch in of_type(each.expected(), "batch"):
            if batch["sizeInBytes"] > 100_000 or (batch["magic"] < 2 and batch["compression"] != "none"):
                continue  # a wrapper message has true messages in it, of which a codec may leave some as they are
            part = bytearray(data[batch["position"] : batch["position"] + batch["sizeInBytes"]])
            covered = 21 if batch["magic"] == 2 else 16
            part[chance.randrange(covered, len(part))] ^= 1 << chance.randrange(8)
            at = chance.randrange(len(image) - len(part))
            image[at : at + len(part)] = part
            near += 1
    assert near > 50
    path = tmp_path / "disk.img"
    path.write_bytes(image)
    assert not list(
        carve([Carving(Location(str(path)), output_directory(Location.of(tmp_path / "to")), LogConfig())], refuse)
    )
    assert not (tmp_path / "to").exists()
