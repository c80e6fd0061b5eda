"""What an erasure removed or blanked is `erased`, by its manifest, and nothing else is."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

import pytest
from tests.jobs.diff.planted import START, Batches, ModelBatch, ModelRecord, random_log, write

import brokerless
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.diff.partition_diff import PartitionDiff

DEMO = Path(__file__).parents[4] / "demo" / "data"

SEEDS = 12


def with_names(log: Batches, chance: random.Random) -> tuple[Batches, set[int]]:
    """The log with keys of three people, and the offsets of one of them."""
    named: Batches = []
    offsets: set[int] = set()
    for each in log:
        records = [
            ModelRecord(one.offset, one.timestamp, chance.choice([b"ann", b"bob", b"eve"]), one.value, one.headers)
            for one in each.records
        ]
        offsets |= {one.offset for one in records if one.key == b"ann"}
        named.append(ModelBatch(tuple(records), each.codec, producer=each.producer))
    return named, offsets


def erase(log: Batches, tmp_path: Path, chance: random.Random, **options: object) -> tuple[Path, Path, Path]:
    """The source, the output and the manifest."""
    source, to, manifest = tmp_path / "left", tmp_path / "right", tmp_path / "manifest.json"
    write(source, log, chance)
    brokerless.open(source).erase(to, keys=["ann"], manifest=manifest, **options)  # type: ignore[arg-type]
    return source, to, manifest


def compare(left: Path, right: Path, manifest: Path, **options: object) -> PartitionDiff:
    (found,) = brokerless.diff(left, right, erasure=manifest, **options).partitions  # type: ignore[arg-type]
    return found


def counts(found: PartitionDiff) -> tuple[int, int, int]:
    return found.missing, found.extra, found.changed


@pytest.mark.parametrize("seed", range(SEEDS))
def test_removed_records_are_erased_and_nothing_else_is_named(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    log, offsets = with_names(random_log(chance), chance)
    found = compare(*erase(log, tmp_path, chance), quick=seed % 3 == 0)
    assert found.is_same
    assert (found.causes or {}).get("erased") == len(offsets)
    assert (found.causes or {}).keys() <= {"erased", "recompressed", "regrouped"}
    assert found.same + len(offsets) == found.records == sum(len(each.records) for each in log)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_blanked_values_are_erased(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    log, offsets = with_names(random_log(chance), chance)
    found = compare(*erase(log, tmp_path, chance, blank=True))
    assert found.is_same
    assert (found.causes or {}).get("erased") == len(offsets)


def test_blanked_fields_are_erased(tmp_path: Path) -> None:
    values = [b'{"name": "Ann %d", "age": 7, "town": "Ulm"}' % number for number in range(30)]
    records = [ModelRecord(offset, START, [b"ann", b"bob"][offset % 2], value) for offset, value in enumerate(values)]
    log = [ModelBatch(tuple(records[first : first + 6]), "lz4") for first in range(0, 30, 6)]
    paths = erase(log, tmp_path, random.Random(1), blank_fields=["name", "town"])
    found = compare(*paths)
    assert (found.causes, found.same) == ({"erased": 15}, 15)
    assert found.is_same

    manifest = json.loads(paths[2].read_text())
    manifest["partitions"][0]["touched"][1]["edits"][0][0][2] = b"none".hex()
    paths[2].write_text(json.dumps(manifest))
    found = compare(*paths)
    assert counts(found) == (0, 0, 1)
    assert found.causes == {"erased": 14, "changed": 1}


@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_loss_beside_the_erasure_is_missing(seed: int, tmp_path: Path) -> None:
    """Though the key has later records, and an erasure writes a cleaner's checkpoint: its source has none."""
    chance = random.Random(seed)
    log, offsets = with_names(random_log(chance), chance)
    untouched = [at for at in range(1, len(log) - 1) if not any(one.offset in offsets for one in log[at].records)]
    at = chance.choice(untouched)
    _, to, manifest = erase([*log[:at], *log[at + 1 :]], tmp_path / "of less", chance)
    source = tmp_path / "source"
    write(source, log, chance)
    found = compare(source, to, manifest)
    assert counts(found) == (len(log[at].records), 0, 0)
    assert (found.causes or {}).get("erased") == len(offsets)


def test_what_the_manifest_names_in_another_log_is_missing(tmp_path: Path) -> None:
    """A log of the same name and offsets, of which other records stayed."""
    chance = random.Random(1)
    log, offsets = with_names(random_log(chance), chance)
    _, _, manifest = erase(log, tmp_path / "erased", chance)
    other = [
        ModelBatch(tuple(ModelRecord(one.offset, one.timestamp, one.key, b"other") for one in each.records))
        for each in log
    ]
    mixed = {at for at, each in enumerate(log) if {one.offset in offsets for one in each.records} == {True, False}}
    kept = [
        ModelBatch(tuple(one for one in each.records if at not in mixed or one.offset not in offsets))
        for at, each in enumerate(other)
    ]
    lost = sum(one.offset in offsets for at in mixed for one in log[at].records)
    left, right = write(tmp_path / "left", other, chance), write(tmp_path / "right", kept, chance)
    found = compare(left, right, manifest, allow=["compaction"])
    assert "erased" not in (found.causes or {})
    assert lost > 0
    assert (found.causes or {}).get("compaction", 0) + found.missing == lost


def test_an_offset_that_the_manifest_does_not_name_is_missing(tmp_path: Path) -> None:
    chance = random.Random(2)
    log, _ = with_names(random_log(chance), chance)
    source, to, manifest = erase(log, tmp_path, chance)
    known = json.loads(manifest.read_text())
    touched = next(each for each in known["partitions"][0]["touched"] if len(each["offsets"]) > 1)
    forgotten = touched["offsets"].pop()
    manifest.write_text(json.dumps(known))
    found = compare(source, to, manifest)
    names = {each.cause for each in found.differences}
    assert names <= {"missing", "unproven-compaction"}
    assert forgotten in {
        offset for each in found.differences for offset in range(each.first_offset, each.last_offset + 1)
    }


def test_a_manifest_of_other_partitions_is_refused(tmp_path: Path) -> None:
    chance = random.Random(3)
    log, _ = with_names(random_log(chance), chance)
    source, to, manifest = erase(log, tmp_path, chance)
    for side in (source, to):
        shutil.move(side / "topic-0", side / "other-0")
    with pytest.raises(UsageError, match="this manifest has no partition of these"):
        brokerless.diff(source, to, erasure=manifest)
    with pytest.raises(UnreadableError, match="not the manifest of an erasure"):
        brokerless.diff(source, to, erasure=source / "other-0" / "00000000000000000000.log")
    with pytest.raises(UsageError, match="by which records are not paired here"):
        brokerless.diff(source, to, erasure=manifest, align="key")


@pytest.mark.parametrize("source", ["disk", "other"])
def test_what_was_erased_in_a_backup_is_erased_in_its_snapshots(source: str, tmp_path: Path) -> None:
    """The left side is the disk, or a snapshot of another backup of it."""
    place, manifest = tmp_path / "place", tmp_path / "manifest.json"
    for each in (place, tmp_path / "other"):
        brokerless.backup(DEMO, each, name="night")
    key = b"u-0048"
    brokerless.Backup(place).erase(keys=[key], manifest=manifest, apply=True)
    left = DEMO if source == "disk" else f"{tmp_path}/other@night"
    right = f"{place}@night"
    found = brokerless.diff(left, right, topics=["users"], erasure=manifest, allow=["retention"])
    keys = brokerless.open(DEMO).topic("users").records(["key"]).read_all().column("key").to_pylist()
    assert sum((each.causes or {}).get("erased", 0) for each in found.partitions) == keys.count(key) > 0
    assert found.is_same, [*found.lines()]
    without = brokerless.diff(left, right, topics=["users"])
    assert "erased" not in {cause for each in without.partitions for cause in each.causes or {}}
    with pytest.raises(UsageError, match="the right side is no snapshot; give URL@SNAPSHOT of that backup"):
        brokerless.diff(right, DEMO, topics=["users"], erasure=manifest)
    with pytest.raises(UsageError, match="a snapshot that has no segment of it"):
        brokerless.diff(DEMO, f"{tmp_path}/other@night", topics=["users"], erasure=manifest)
