"""Proofs of erasures hold, and neither they nor the second verifier miss a changed byte."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from scripts import verify_erasure
from tests.golden import broker_data

import brokerless
from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.erase.selection import Selection
from brokerless.views.proof_page import proof_page

pytestmark = pytest.mark.xdist_group("proved")
WHERE = '"offset" % 7 < 3'
# aiokafka does not read lz4 in v0, which upgraded-0 has
PLACES = {
    "clean": [
        "txn-0",
        "codec-zstd-1",
        "codec-snappy-0",
        "segments-0",
        "compacted-lz4-0",
        "append-time-0",
        "head-deleted-0",
    ],
    "old-formats": ["v0-gzip-0", "v0-none-0", "v1-lz4-0", "v1-none-0", "v1-append-gzip-0"],
}


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A private and a public key."""
    private, public = (tmp_path_factory.mktemp("keys") / name for name in ("private.pem", "public.pem"))
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public


def log_directory(tmp_path: Path, broker: str, names: list[str]) -> Path:
    source = tmp_path / f"from-{broker}"
    for name in names:
        shutil.copytree(broker_data(broker) / name, source / name)
    checkpoint = broker_data(broker) / "log-start-offset-checkpoint"
    if checkpoint.exists():
        shutil.copy(checkpoint, source)
    return source


@pytest.mark.parametrize("how", [{}, {"blank": True}], ids=["removed", "blanked"])
@pytest.mark.parametrize("broker", PLACES)
def test_both_verifiers_find_that_the_proof_holds(
    broker: str, how: dict[str, bool], keys: tuple[Path, Path], tmp_path: Path
) -> None:
    source, path = log_directory(tmp_path, broker, PLACES[broker]), tmp_path / "proof.json"
    results = brokerless.open(source).erase(tmp_path / "to", where=WHERE, manifest=path, sign_key=keys[0], **how)
    proof = brokerless.prove(path, source=source, key=keys[1], selection=Selection(where=WHERE))
    assert not [each for each in proof.findings if each.severity == "error"]
    assert (proof.holds, proof.signature, proof.is_known_key) == (True, "valid", True)
    assert sum(each.selected for each in proof.claims) == sum(each.totals.selected for each in results) > 100
    assert brokerless.prove(path).holds
    assert verify_erasure.main([str(path), "--key", str(keys[1])]) == 0
    assert verify_erasure.main([str(path), "--source", str(source)]) == 0


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory, keys: tuple[Path, Path]) -> Path:
    to = tmp_path_factory.mktemp("proved")
    source = log_directory(to, "clean", ["txn-0", "codec-zstd-1", "segments-0"])
    brokerless.open(source).erase(to / "to", where=WHERE, manifest=to / "proof.json", sign_key=keys[0])
    return to


def verdicts(path: Path, public: Path) -> tuple[bool, bool]:
    """Whether the proof holds, by each verifier."""
    try:
        ours = brokerless.prove(path, key=public).holds
    except UnreadableError:
        ours = False
    try:
        theirs = verify_erasure.main([str(path), "--key", str(public)]) == 0
    except (OSError, ValueError, KeyError, TypeError):  # exit code 2
        theirs = False
    return ours, theirs


def test_a_changed_byte_anywhere_is_found_by_both(proved: Path, keys: tuple[Path, Path]) -> None:
    """In each kind of file of the output, in the manifest, and in its signature, at random places."""
    path, choose = proved / "proof.json", random.Random(19)
    assert verdicts(path, keys[1]) == (True, True)
    by_suffix = {each.suffix: each for each in sorted((proved / "to").glob("*/*")) if each.stat().st_size}
    assert {".log", ".index", ".timeindex", ".snapshot", ".metadata"} <= by_suffix.keys()
    for file in (*by_suffix.values(), path, path, path, proved / "proof.json.sig"):
        before = file.read_bytes()
        at, bit = choose.randrange(len(before)), 1 << choose.randrange(8)
        file.write_bytes(before[:at] + bytes([before[at] ^ bit]) + before[at + 1 :])
        assert verdicts(path, keys[1]) == (False, False), (file, at, bit)
        file.write_bytes(before)


def _add_a_file(to: Path) -> None:
    (to / "to" / "txn-0" / "00000000000000000999.log").write_bytes(b"")


def _take_a_file(to: Path) -> None:
    min((to / "to" / "txn-0").glob("*.index")).unlink()


def _put_the_source_back(to: Path) -> None:
    log = min((to / "from-clean" / "txn-0").glob("*.log"))
    shutil.copy(log, to / "to" / "txn-0" / log.name)


def _take_the_signature(to: Path) -> None:
    (to / "proof.json.sig").unlink()


def _claim_less(to: Path) -> None:
    """As somebody would who has another key: everything agrees but what is claimed of the source."""
    manifest = json.loads((to / "proof.json").read_bytes())
    manifest["partitions"][0]["touched"].pop()
    (to / "proof.json").write_text(json.dumps(manifest))


@pytest.mark.parametrize("change", [_add_a_file, _take_a_file, _put_the_source_back, _take_the_signature, _claim_less])
def test_what_else_is_changed_is_found_by_both(
    change: Callable[[Path], None], proved: Path, keys: tuple[Path, Path], tmp_path: Path
) -> None:
    shutil.copytree(proved, tmp_path / "copy")
    path = tmp_path / "copy" / "proof.json"
    manifest = json.loads(path.read_bytes())
    assert verdicts(path, keys[1]) == (True, True)
    change(tmp_path / "copy")
    output = ["--output", str(tmp_path / "copy" / "to")]
    assert not brokerless.prove(path, key=keys[1], output=tmp_path / "copy" / "to").holds
    assert verify_erasure.main([str(path), "--key", str(keys[1]), *output]) == 1
    assert manifest["partitions"]


def test_another_key_or_selection_is_not_taken(proved: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", other], check=True)
    assert brokerless.prove(proved / "proof.json", key=other).signature == "wrong"
    with pytest.raises(UsageError, match="not the keys, condition or header"):
        brokerless.prove(proved / "proof.json", selection=Selection(where="true"))


def test_a_record_that_should_have_been_erased_is_found_with_the_selection(tmp_path: Path, proved: Path) -> None:
    """A manifest that is right in itself, of an erasure that missed some: only the source and the condition show it."""
    source = proved / "from-clean"
    brokerless.open(source).erase(tmp_path / "to", where=WHERE + ' AND "offset" > 50', manifest=tmp_path / "m.json")
    described = json.loads((proved / "proof.json").read_bytes())["selection"]
    manifest = json.loads((tmp_path / "m.json").read_bytes()) | {"selection": described}
    (tmp_path / "m.json").write_text(json.dumps(manifest))
    assert brokerless.prove(tmp_path / "m.json").holds
    proof = brokerless.prove(tmp_path / "m.json", source=source, selection=Selection(where=WHERE))
    assert {each.kind for each in proof.findings if each.severity == "error"} == {"record-present", "selection-differs"}


def test_bytes_of_erased_values_are_found_where_they_are_left(proved: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(proved, tmp_path / "copy")
    rows = brokerless.open(proved / "from-clean" / "codec-zstd-1").records().read_all().to_pylist()
    value = next(row["value"] for row in rows if row["offset"] % 7 < 3 and row["value"] and len(row["value"]) > 8)
    index = copy / "to" / "txn-0" / "leader-epoch-checkpoint"
    index.write_bytes(index.read_bytes() + value)
    proof = brokerless.prove(copy / "proof.json", output=copy / "to", source=proved / "from-clean")
    assert {"bytes-found", "file-changed"} <= {each.kind for each in proof.findings if each.severity == "error"}


def test_the_page_says_it_all_and_runs_nothing(proved: Path) -> None:
    page = proof_page(brokerless.prove(proved / "proof.json"))
    assert "The proof holds" in page
    assert all(name in page for name in ("txn-0", "segments-0", "codec-zstd-1"))
    assert "<script" not in page
    assert "default-src 'none'" in page


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"erasure": 2}', "[" * 100_000, '{"erasure": 1, "partitions": [1]}'])
def test_what_is_no_manifest_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(UnreadableError, match=r"not the manifest of an erasure|version 2"):
        brokerless.prove(tmp_path / "m.json")


@pytest.mark.parametrize("name", ["../x.log", "/etc/passwd", "notes.txt", ""])
def test_names_in_a_manifest_are_only_those_of_partitions(name: str, proved: Path, tmp_path: Path) -> None:
    manifest = json.loads((proved / "proof.json").read_bytes())
    manifest["partitions"][0]["after"][0]["name"] = name
    (tmp_path / "m.json").write_text(json.dumps(manifest))
    with pytest.raises(UnreadableError, match="not a file of a partition"):
        brokerless.prove(tmp_path / "m.json")
