"""A proof holds when no object of the bucket has an erased record, whichever snapshots name it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.examples import examples
from tests.jobs.backup.disks import DEMO, earlier
from tests.jobs.backup.rsa_keys import key_files

import brokerless
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.backup_erasure.proof import BackupProof

KEYS = ("u-0048", "o-101230")
SMALL = 20_000


@pytest.fixture
def place(tmp_path: Path) -> Path:
    place = tmp_path / "backup"
    brokerless.backup(DEMO, place, name="first", segment_size=SMALL)
    return place


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return tmp_path / "erased.json"


@pytest.fixture
def signing(tmp_path: Path) -> tuple[Path, Path]:
    private, public = tmp_path / "sign.pem", tmp_path / "sign.public.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def erase(place: Path, manifest: Path, **options: Any) -> None:
    brokerless.Backup(place).erase(**{"keys": KEYS, "manifest": manifest, "apply": True, **options})


def prove(manifest: Path, **options: Any) -> BackupProof:
    proof = brokerless.prove(manifest, **{"keys": KEYS, **options})
    assert isinstance(proof, BackupProof)
    return proof


def errors(proof: BackupProof) -> set[str]:
    return {each.kind for each in proof.findings if each.severity == "error"}


def keys_in(place: Path) -> set[bytes]:
    """The keys of all records in a bucket that is neither compressed nor encrypted: each log is a segment's file."""
    found: set[bytes] = set()
    for log in place.glob("*-*/*/*.log"):
        copied = place.parent / "one" / f"{log.name[:20]}.log"
        copied.parent.mkdir(exist_ok=True)
        shutil.copy(log, copied)
        found |= set(brokerless.open(copied).partitions[0].records(["key"]).read_all()["key"].to_pylist())
        shutil.rmtree(copied.parent)
    return found


def test_until_the_old_objects_are_pruned_it_names_them(place: Path, manifest: Path) -> None:
    erase(place, manifest)
    proof = prove(manifest)
    assert errors(proof) == {"erased-not-pruned"}
    (finding,) = (each for each in proof.findings if each.kind == "erased-not-pruned")
    assert "prune removes them from 2" in finding.message
    brokerless.Backup(place).prune(grace=0, apply=True)
    proof = prove(manifest)
    assert (proof.holds, proof.selected > 3, proof.objects > 20) == (True, True, True)
    assert json.loads(json.dumps(proof.as_dict()))["holds"]


@pytest.mark.slow(reason="backups for each example")
@given(
    keys=st.lists(st.integers(1, 90).map("u-{:04}".format), min_size=1, max_size=6, unique=True),
    segments=st.lists(st.integers(1, 6), min_size=1, max_size=3),
    size=st.sampled_from([4_000, 20_000, 1 << 20]),
)
@examples(40)
def test_no_object_has_an_erased_key_after_prune(
    keys: list[str], segments: list[int], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("proof")
    place, manifest = root / "backup", root / "erased.json"
    for number, each in enumerate(sorted(segments)):
        brokerless.backup(earlier(root / f"disk-{number}", each), place, segment_size=size)
    erase(place, manifest, keys=keys)
    backup = brokerless.Backup(place)
    backup.prune(grace=0, apply=True)
    assert prove(manifest, keys=keys).holds
    assert not keys_in(place) & {each.encode() for each in keys}
    brokerless.backup(DEMO, place, segment_size=size)
    assert prove(manifest, keys=keys).holds
    assert not keys_in(place) & {each.encode() for each in keys}
    assert not backup.check("all").findings
    shutil.rmtree(root)


def test_what_is_encrypted_is_searched_as_it_was(tmp_path: Path, manifest: Path) -> None:
    private, public = key_files(tmp_path, "ops", "safe")
    place, keys = tmp_path / "backup", {"safe": private["safe"]}
    brokerless.backup(DEMO, place, public_keys=public, compress=True)
    erase(place, manifest, key_pairs=keys)
    with pytest.raises(UsageError, match="this backup is encrypted"):
        prove(manifest)
    assert errors(prove(manifest, key_pairs=keys)) == {"erased-not-pruned"}
    brokerless.Backup(place).prune(grace=0, apply=True)
    assert prove(manifest, key_pairs=keys).holds
    other = tmp_path / "other"
    brokerless.backup(DEMO, other, public_keys=public)
    (left,) = other.glob("users-*/0/*.log")
    for each in left.parent.iterdir():  # as of an interrupted run, in another run's key
        shutil.copy(each, next(place.glob("users-*")) / "0")
    assert errors(prove(manifest, key_pairs=keys))


def test_an_object_of_no_snapshot_that_has_a_record_is_found(place: Path, manifest: Path) -> None:
    kept = place.parent / "kept"
    shutil.copytree(place, kept)
    erase(place, manifest)
    brokerless.Backup(place).prune(grace=0, apply=True)
    (old,) = kept.glob("users-*/0/*.log")
    left = next(place.glob("users-*")) / "0" / old.name.replace(old.name[21:26], "AAAAA")
    shutil.copy(old, left)
    proof = prove(manifest)
    assert errors(proof) == {"record-present"}
    left.rename(left.with_name(f"{left.name}.tmp"))
    assert errors(prove(manifest)) == {"record-present"}


def test_partitions_that_are_not_in_the_manifest_are_errors_unless_left_out(place: Path, manifest: Path) -> None:
    erase(place, manifest, topics=["users", "orders"])
    brokerless.Backup(place).prune(grace=0, apply=True)
    assert errors(prove(manifest)) == {"outside-of-proof"}
    assert prove(manifest, only=["users", "orders-0"]).holds


def test_a_list_that_is_gone_and_another_object_do_not_hold(place: Path, manifest: Path) -> None:
    erase(place, manifest)
    (listed,) = (place / ".brokerless" / "replaced").iterdir()
    data = listed.read_bytes()
    listed.unlink()
    assert "not-finished" in errors(prove(manifest))
    listed.write_bytes(data)
    brokerless.Backup(place).prune(grace=0, apply=True)
    claim = json.loads(manifest.read_bytes())["backup"]["segments"][0]
    (log,) = place.glob(f"*/*/*-{claim['segmentId']}.log")
    other = next(each for each in place.glob(f"{claim['topic']}-*/*/*.log") if each != log)
    shutil.copy(other, log)
    assert "stored-object-differs" in errors(prove(manifest))


def test_a_segment_that_was_not_written_does_not_hold(place: Path, manifest: Path) -> None:
    (log,) = place.glob("users-*/0/*.log")
    data = log.read_bytes()
    log.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    erase(place, manifest)
    log.write_bytes(data)
    assert errors(prove(manifest)) >= {"not-written", "record-present"}
    erase(place, manifest)
    brokerless.Backup(place).prune(grace=0, apply=True)
    assert prove(manifest).holds


def test_a_signed_manifest_is_proved_by_its_key(
    place: Path, manifest: Path, tmp_path: Path, signing: tuple[Path, Path]
) -> None:
    private, public = signing
    erase(place, manifest, sign_key=private)
    brokerless.Backup(place).prune(grace=0, apply=True)
    proof = prove(manifest, public_key=public)
    assert (proof.holds, proof.signature, proof.is_known_key) == (True, "valid", True)
    manifest.write_bytes(manifest.read_bytes().replace(b'"erasedOffsets"', b'"erasedoffsets"'))
    with pytest.raises(UnreadableError, match="not the manifest of an erasure in a backup"):
        prove(manifest, public_key=public)


def test_what_it_is_not_about_is_refused(place: Path, manifest: Path, tmp_path: Path) -> None:
    erase(place, manifest)
    other = tmp_path / "other"
    brokerless.backup(DEMO, other)
    for options, says in (
        ({"keys": ["u-0001"]}, "not the keys"),
        ({"source": DEMO}, "is of a backup"),
        ({"erased": other}, "another backup"),
        ({"erased": f"{place}@first"}, "all snapshots"),
    ):
        with pytest.raises(UsageError, match=says):
            prove(manifest, **options)
    place.rename(tmp_path / "moved")
    assert errors(prove(manifest, erased=tmp_path / "moved")) == {"erased-not-pruned"}
