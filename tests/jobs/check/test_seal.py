"""What was sealed is there, or its removal is explained; only signed snapshots are trusted, where a key is given."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from tests.jobs.backup.disks import REPLICAS
from tests.jobs.backup.signing_keys import ed25519_pair

import brokerless
from brokerless.errors import UnreadableError, UsageError

DISK = REPLICAS[2]


@pytest.fixture
def signing(tmp_path: Path) -> tuple[Path, Path]:
    return ed25519_pair(tmp_path)


@pytest.fixture
def place(tmp_path: Path, signing: tuple[Path, Path]) -> Path:
    for name in ("one", "two"):
        brokerless.backup(DISK, tmp_path / "backup", name=name, sign_key=signing[0])
    return tmp_path / "backup"


@pytest.fixture
def seal(place: Path, tmp_path: Path) -> Path:
    assert len(brokerless.Backup(place).seal(tmp_path / "seal.json").snapshots) == 2
    return tmp_path / "seal.json"


def found(place: Path, seal: Path, trust: Path | tuple[Path, ...] = ()) -> list[tuple[str, str]]:
    return [(each.kind, each.severity) for each in brokerless.Backup(place).check(seal=seal, trust=trust).findings]


def test_what_was_sealed_is_there(place: Path, seal: Path, signing: tuple[Path, Path], tmp_path: Path) -> None:
    assert found(place, seal) == []
    assert found(place, seal, signing[1]) == []
    brokerless.backup(DISK, place, name="later", sign_key=signing[0])
    assert found(place, seal, signing[1]) == []
    _, other = ed25519_pair(tmp_path, "other")
    assert found(place, seal, (other, signing[1])) == []
    assert {kind for kind, _ in found(place, seal, other)} == {"snapshot-unsigned"}


def test_openssl_checks_a_signature(place: Path, signing: tuple[Path, Path]) -> None:
    for each in (place / ".brokerless" / "snapshots").glob("*.json"):
        signature = each.with_suffix(".sig")
        command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", signing[1]]
        subprocess.run([*command, "-in", each, "-sigfile", signature], check=True, capture_output=True)


def test_a_removal_is_explained_or_an_error(place: Path, seal: Path) -> None:
    brokerless.Backup(f"{place}@one").forget(apply=True)
    assert found(place, seal) == [("sealed-differs", "info")]
    brokerless.Backup(place).prune(grace=0, apply=True)
    assert not list((place / ".brokerless" / "forgotten").iterdir())
    assert found(place, seal) == [("sealed-differs", "error")]


def test_an_erasure_is_explained(place: Path, seal: Path, tmp_path: Path) -> None:
    rows = [each.records(["key"]).read_all()["key"].to_pylist() for each in brokerless.open(place).partitions]
    key = next(key for keys in rows for key in keys if key)
    brokerless.Backup(place).erase(keys=[key], manifest=tmp_path / "erased.json", apply=True)
    assert set(found(place, seal)) == {("sealed-differs", "info")}
    brokerless.Backup(place).seal(seal)
    assert found(place, seal) == []


@pytest.mark.parametrize("suffix", [".json", ".parquet"])
def test_another_snapshot_in_its_place_is_an_error(suffix: str, place: Path, seal: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    brokerless.backup(REPLICAS[1], other)
    (false,) = (other / ".brokerless" / "snapshots").glob(f"*{suffix}")
    true = min((place / ".brokerless" / "snapshots").glob(f"*{suffix}"))
    true.write_bytes(false.read_bytes())
    assert ("sealed-differs", "error") in found(place, seal)


def test_a_snapshot_that_was_made_anew_consistently_is_found(
    place: Path, seal: Path, signing: tuple[Path, Path]
) -> None:
    """Its hashes are right: only the signature and the seal tell."""
    from msgspec import structs

    from brokerless.log.backups.snapshot import dump_snapshot

    first, _ = brokerless.Backup(place).snapshots()
    file = min((place / ".brokerless" / "snapshots").glob("*.json"))
    file.write_bytes(dump_snapshot(structs.replace(first, name="false")))
    assert brokerless.Backup(place).check().findings == ()
    assert found(place, seal) == [("sealed-differs", "error")]
    unsigned = brokerless.Backup(place).check(trust=signing[1]).findings
    assert [each.kind for each in unsigned] == ["snapshot-unsigned"]


def test_what_is_not_signed_fills_no_place(place: Path, signing: tuple[Path, Path], tmp_path: Path) -> None:
    """False snapshots do not crowd out true ones."""
    for name in ("false", "another"):
        brokerless.backup(DISK, place, name=name)
    backup = brokerless.Backup(place)
    plain = backup.forget(keep_last=2)
    assert [each.snapshot.name for each in plain.decisions if each.reasons] == ["false", "another"]
    trusted = backup.forget(keep_last=2, trust=[signing[1]], apply=True)
    assert {each.kind for each in trusted.findings} == {"snapshot-unsigned"}
    assert [each.snapshot.name for each in trusted.decisions if each.reasons] == ["one", "two", "false", "another"]
    brokerless.backup(DISK, place, name="three", sign_key=signing[0])
    backup.forget(keep_last=2, trust=[signing[1]], apply=True)
    assert [each.name for each in backup.snapshots()] == ["two", "three"]
    backup.prune(grace=0, apply=True)
    assert len(list((place / ".brokerless" / "snapshots").iterdir())) == 6
    _, other = ed25519_pair(tmp_path, "other")
    assert backup.forget(keep_last=1, trust=other).forgotten == ()


def test_a_seal_takes_the_place_of_a_seal_alone(place: Path, seal: Path, tmp_path: Path) -> None:
    assert len(brokerless.Backup(f"{place}@one").seal(seal).snapshots) == 1
    text = tmp_path / "text.txt"
    text.write_text("mine")
    for path, says in ((text, "is no seal"), (place / "seal.json", "not in the backup")):
        with pytest.raises(UsageError, match=says):
            brokerless.Backup(place).seal(path)
    assert text.read_text() == "mine"
    with pytest.raises(UsageError, match="give the file"):
        brokerless.Backup(place).seal()


@pytest.mark.parametrize("member", ["seal", "backup", "snapshots", "name", "segments", "json"])
@pytest.mark.parametrize("value", [None, {}, "x", [1], "\ud800"])
def test_any_other_file_is_one_sentence(member: str, value: object, place: Path, seal: Path) -> None:
    content = json.loads(seal.read_bytes())
    where = content if member in content else content["snapshots"][0]
    where[member] = value
    seal.write_text(json.dumps(content))
    if member == "json" and value == "x":
        assert found(place, seal) == [("sealed-differs", "error")]
        return
    with pytest.raises((UnreadableError, UsageError), match=r"seal\.json"):
        found(place, seal)
