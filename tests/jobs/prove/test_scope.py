"""What a proof is about: partitions that a manifest leaves out, or calls copied, are not taken for erased ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from scripts import verify_erasure

import brokerless
from brokerless.cli import main

pytestmark = pytest.mark.xdist_group("proved")
DEMO = Path(__file__).parents[3] / "demo" / "data"


def _claims_it_was_copied(to: Path, name: str) -> None:
    """As a signer would who lies: a partition in which nothing was erased, said to be copied."""
    manifest = json.loads((to / "proof.json").read_bytes())
    claim = next(each for each in manifest["partitions"] if f"{each['topic']}-{each['partition']}" == name)
    claim |= {"isCopied": True, "untouchedSha256": None, "touched": [], "after": claim["before"], "selected": 0}
    (to / "proof.json").write_text(json.dumps(manifest))
    shutil.rmtree(to / "to" / name)
    shutil.copytree(to / "from" / name, to / "to" / name)


@pytest.fixture
def erased_users(tmp_path: Path) -> Path:
    """An erasure of two keys in the demo's users and orders, with payments, which has another, next to them."""
    for name in ("users-0", "orders-0", "payments-0", "__consumer_offsets-0"):
        shutil.copytree(DEMO / name, tmp_path / "from" / name)
    (tmp_path / "keys.txt").write_text("\n".join(KEYS))
    command = ["erase", str(tmp_path / "from"), "-t", "users", "-t", "orders", "--to", str(tmp_path / "to")]
    assert main([*command, "--keys", str(tmp_path / "keys.txt"), "--manifest", str(tmp_path / "proof.json")]) == 0
    return tmp_path


KEYS = ["u-0048", "o-101230"]
ONLY = ["users", "orders-0"]


def errors_of(to: Path, **options: Any) -> list[tuple[str, str]]:
    proof = brokerless.prove(to / "proof.json", source=to / "from", **options)
    return [(each.kind, Path(each.file or "").name) for each in proof.findings if each.severity == "error"]


def test_a_partition_that_is_said_to_be_copied_has_no_selected_record(
    erased_users: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _claims_it_was_copied(erased_users, "users-0")
    keys = erased_users / "keys.txt"
    assert errors_of(erased_users, keys=KEYS, only=ONLY) == [("record-present", "users-0")]
    assert errors_of(erased_users) == [("copied-partition", "users-0")]
    assert verify_erasure.main([str(erased_users / "proof.json")]) == 1
    assert verify_erasure.main([str(erased_users / "proof.json"), "--keys", str(keys)]) == 1
    assert "an erased key at offset" in capsys.readouterr().out


def test_a_partition_that_is_said_to_be_copied_has_the_segments_of_before(erased_users: Path) -> None:
    path = erased_users / "proof.json"
    manifest = json.loads(path.read_bytes())
    (claim,) = (each for each in manifest["partitions"] if each["topic"] == "users")
    claim |= {"isCopied": True, "untouchedSha256": None, "touched": []}
    path.write_text(json.dumps(manifest))
    assert ("copy-differs", "users-0") in errors_of(erased_users, keys=KEYS, only=ONLY)
    assert verify_erasure.main([str(path)]) == 1


def test_selected_records_outside_of_the_manifest_are_counted(
    erased_users: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A proof is of what its manifest has; --only says that no more is meant."""
    keys = erased_users / "keys.txt"
    command = ["prove", str(erased_users / "proof.json"), "--source", str(erased_users / "from")]
    assert errors_of(erased_users, keys=KEYS) == [("outside-of-proof", "payments-0")]
    assert main([*command, "--keys", str(keys)]) == 1
    text = capsys.readouterr().out
    assert "payments-0: 1 selected record: this partition of the source is not in the manifest" in text
    assert "compared with the source, of which 2 of 4 partitions are outside of the proof" in text
    assert main(command) == 0  # which records were selected is not known
    text = capsys.readouterr().out
    assert "whether selected records are in it is not known" in text
    assert main([*command, "--keys", str(keys), "--only", "users", "--only", "orders-0", "--json"]) == 0
    scope = json.loads(capsys.readouterr().out.splitlines()[-1])["scope"]
    assert scope == {"partitions": 4, "leftOut": 2, "only": ["users", "orders-0"]}
    assert main([*command, "--keys", str(keys), "--only", "pers"]) == 2
    assert "there is no topic or partition pers in the source" in capsys.readouterr().err


def test_a_partition_that_was_taken_out_of_the_manifest_is_missed(erased_users: Path) -> None:
    path = erased_users / "proof.json"
    manifest = json.loads(path.read_bytes())
    manifest["partitions"] = [each for each in manifest["partitions"] if each["topic"] != "users"]
    path.write_text(json.dumps(manifest))
    shutil.rmtree(erased_users / "to" / "users-0")
    assert errors_of(erased_users, keys=KEYS, only=["users"]) == [("outside-of-proof", "users-0")]
    manifest["partitions"] = []
    path.write_text(json.dumps(manifest))
    shutil.rmtree(erased_users / "to" / "orders-0")
    assert ("no-partitions", "proof.json") in errors_of(erased_users, keys=KEYS)
    assert ("no-partitions", "proof.json") in errors_of(erased_users)


def test_what_is_left_in_kafkas_own_topics_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("users-0", "__consumer_offsets-0"):
        shutil.copytree(DEMO / name, tmp_path / "from" / name)
    where = "octet_length(key) > 0"
    brokerless.open(tmp_path / "from").erase(tmp_path / "to", where=where, manifest=tmp_path / "proof.json")
    proof = brokerless.prove(tmp_path / "proof.json", source=tmp_path / "from", where=where)
    left = sum(
        row["key"] is not None
        for row in brokerless.open(DEMO / "__consumer_offsets-0").records(["key"]).read_all().to_pylist()
    )
    assert (proof.holds, proof.copied) == (True, {"__consumer_offsets-0": left})
    assert ("records-left", "warning") in {(each.kind, each.severity) for each in proof.findings}
    assert main(["prove", str(tmp_path / "proof.json"), "--where", where]) == 0
    assert f"copied unchanged: __consumer_offsets-0 ({left} selected)" in capsys.readouterr().out


def test_what_is_no_file_of_kafkas_in_the_source_is_a_copy_and_no_failure(tmp_path: Path) -> None:
    users = tmp_path / "from" / "users-0"
    shutil.copytree(DEMO / "users-0", users)
    log = min(users.glob("*.log"))
    for path in (
        users / "sub" / log.name,
        tmp_path / "from" / "old" / "deep" / "a.bak",
        tmp_path / "from" / "loose.txt",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(log, path)
    (users / "users.txt").write_text("no log")
    brokerless.open(tmp_path / "from").erase(tmp_path / "to", keys=["u-0048"], manifest=tmp_path / "proof.json")
    proof = brokerless.prove(tmp_path / "proof.json", source=tmp_path / "from", keys=["u-0048"])
    assert proof.holds
    copies = {Path(each["path"]).name: each["selected"] for each in proof.manifest["copies"]}
    assert copies == {log.name: 1, "a.bak": 1, "loose.txt": 1}
    found = {Path(each.file or "").name for each in proof.findings if each.kind == "copy-in-source"}
    assert found == set(copies)
