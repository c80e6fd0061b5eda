"""A proof is about all that a backup stores: files that are no segments may have an erased key as well."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.backup.disks import DEMO
from tests.jobs.backup.rsa_keys import key_files

import brokerless
from brokerless.jobs.prove.job import Proof

KEYS = ("u-0048", "o-101230")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    brokerless.backup(DEMO, tmp_path / "backup")
    return tmp_path / "backup"


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    return tmp_path / "erased.json"


def erase(place: Path, manifest: Path, **options: Any) -> None:
    brokerless.Backup(place).erase(keys=KEYS, manifest=manifest, apply=True, **options)


def proved(manifest: Path, **options: Any) -> Proof:
    return brokerless.prove(manifest, keys=KEYS, **options)


def errors(proof: Proof) -> set[str]:
    return {each.kind for each in proof.findings if each.severity == "error"}


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_stored_files_that_are_no_segments_are_searched(tmp_path: Path, manifest: Path, is_encrypted: bool) -> None:
    private, public = key_files(tmp_path, "ops", "safe")
    place, keys = tmp_path / "backup", {"safe": private["safe"]} if is_encrypted else None
    disk = tmp_path / "disk"
    shutil.copytree(DEMO, disk)
    properties = disk / "meta.properties"
    properties.write_text(f"# of {KEYS[0]}\n{properties.read_text()}")
    brokerless.backup(disk, place, public_keys=public if is_encrypted else None)
    erase(place, manifest, key_pairs=keys)
    brokerless.Backup(place).prune(grace=0, apply=True)
    proof = proved(manifest, key_pairs=keys)
    assert errors(proof) == {"bytes-found"}
    (finding,) = (each for each in proof.findings if each.severity == "error")
    assert Path(finding.file).parent == place / ".brokerless" / "files"
    assert proof.as_dict()["filesSearched"] == len(list(Path(finding.file).parent.iterdir()))
    assert (finding.position, "an erased key" in finding.message) == (5, True)


def test_a_stored_file_that_no_snapshot_names_is_searched(place: Path, manifest: Path) -> None:
    erase(place, manifest)
    brokerless.Backup(place).prune(grace=0, apply=True)
    assert proved(manifest).holds
    (place / ".brokerless" / "files" / ("ab" * 32)).write_bytes(f"left of {KEYS[1]}".encode())
    assert errors(proved(manifest)) == {"bytes-found"}


def test_a_stored_file_that_is_another_one_does_not_hold(place: Path, manifest: Path) -> None:
    erase(place, manifest)
    brokerless.Backup(place).prune(grace=0, apply=True)
    min((place / ".brokerless" / "files").iterdir()).write_bytes(b"another one")
    proof = proved(manifest)
    assert not proof.holds
    assert any("whether this has erased records is not known" in each.message for each in proof.findings)
