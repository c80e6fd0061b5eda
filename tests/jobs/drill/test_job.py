"""A drill finds what a restore of a snapshot would lack, and says what it tried."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from tests.jobs.backup.disks import DEMO, earlier, rows_of
from tests.jobs.backup.rsa_keys import key_files
from tests.jobs.backup.signing_keys import ed25519_pair
from tests.jobs.rebuild.from_snapshot.disks import three_nodes

import brokerless
from brokerless import UsageError
from brokerless.errors import UnreadableError, UnwritableError
from brokerless.findings import Kind
from brokerless.internals.records import CONSUMER_OFFSETS
from brokerless.jobs.drill.results import DrillCheck, DrillResult
from brokerless.jobs.signatures import is_signed_by, load_public_key, public_bytes
from brokerless.views.internals.rebuild import rebuild_rows

CHECKS = ["rebuild", "verify", "start", "offsets", "positions"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A backup of the demo's disk, in several segments of each partition."""
    brokerless.backup(DEMO, tmp_path / "backup", name="nightly", segment_size=20_000)
    return tmp_path / "backup"


def drilled(place: Path | str, **options: object) -> DrillResult:
    return brokerless.Backup(f"{place}@nightly").drill(**options)  # type: ignore[arg-type]


def check(result: DrillResult, name: str) -> DrillCheck:
    return next(each for each in result.checks if each.name == name)


def object_of(place: Path, suffix: str, at: int, partition: str = "orders-*/0") -> Path:
    return sorted(place.glob(f"{partition}/*.{suffix}"))[at]


def test_a_snapshot_that_nobody_touched_is_clean(place: Path) -> None:
    result = drilled(place)
    assert [each.name for each in result.checks] == CHECKS
    assert all(each.is_clean and not each.lost and not each.findings for each in result.checks)
    partitions = [each for each in result.snapshot.partitions if each.topic != "__cluster_metadata"]
    assert check(result, "offsets").counts == {
        "partitions": len(partitions),
        "records": sum(each.records for each in partitions),
    }
    assert check(result, "positions").counts["onRecord"] == 1
    assert "a start of a real broker" in result.not_tried


def test_scratch_is_removed_unless_it_was_given(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    assert drilled(place).scratch is None
    assert not list((tmp_path / "tmp").iterdir())
    result = drilled(place, scratch=tmp_path / "kept")
    assert result.scratch == str(tmp_path / "kept")
    topics = ("orders", "payments", "users")
    assert rows_of(tmp_path / "kept" / "node-1", topics) == rows_of(DEMO, topics)
    with pytest.raises(UsageError, match="this exists already"):
        drilled(place, scratch=tmp_path / "kept")


def test_scratch_is_removed_when_a_drill_ends_early(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    object_of(place, "rsm-manifest", 0, partition="__cluster_metadata-*/0").unlink()
    with pytest.raises(UsageError):
        drilled(place, spread=True)  # which node had what is not known any more
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("suffix", ["log", "rsm-manifest"])
def test_an_object_that_is_gone_is_named_with_its_offsets(suffix: str, place: Path) -> None:
    gone = object_of(place, suffix, 1)
    gone.unlink()
    result = drilled(place)
    assert not result.is_clean
    rebuilt, offsets = check(result, "rebuild"), check(result, "offsets")
    assert [Path(each.file).stem for each in rebuilt.findings] == [gone.stem]
    (lost,) = rebuilt.lost
    assert lost.startswith(f"offsets {int(gone.name[:20])}..")
    assert lost.endswith("of orders-0: not in the backup")
    (differs,) = offsets.findings
    assert (differs.kind, differs.file.rpartition("@")[2]) == (Kind.RESTORED_DIFFERS, result.snapshot.id)
    assert differs.expected == "1,265 records in offsets 0 to 1265"
    assert all(check(result, name).is_clean for name in ("verify", "start", "positions"))


def test_damaged_batches_are_named_with_their_offsets(place: Path) -> None:
    log = object_of(place, "log", 0)
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    result = drilled(place)
    (lost,) = check(result, "rebuild").lost
    assert "of orders-0: damaged in the backup (checksum-mismatch)" in lost
    assert [each.name for each in result.checks if not each.is_clean] == ["rebuild", "offsets"]


def test_only_chosen_topics_are_rebuilt_and_tried(place: Path, tmp_path: Path) -> None:
    object_of(place, "log", 0, partition="payments-*/0").unlink()
    result = drilled(place, topics=["ord*", "users"], scratch=tmp_path / "kept")
    assert result.is_clean
    assert result.partitions == ("orders-0", "orders-1", "orders-2", "users-0")
    assert check(result, "rebuild").counts["partitions"] == 4
    assert check(result, "offsets").counts["partitions"] == 4
    assert check(result, "positions").counts["positions"] == 0
    assert result.not_tried[0] == "3 of the 7 partitions of the snapshot, and positions of groups in or of them"
    rebuilt = {each.name for each in (tmp_path / "kept" / "node-1").iterdir() if each.is_dir()}
    assert rebuilt == {"__cluster_metadata-0", *result.partitions}
    assert not drilled(place, topics=["payments"]).is_clean


def test_positions_are_tried_in_chosen_topics(place: Path) -> None:
    """Those in other topics are not past an end: nothing is known of these here."""
    result = drilled(place, topics=["__consumer_offsets", "orders"])
    assert result.is_clean
    assert check(result, "positions").counts["onRecord"] == 1
    alone = drilled(place, topics=["__consumer_offsets"])
    assert alone.is_clean
    assert check(alone, "positions").counts["positions"] == 0


def test_with_spread_each_node_has_its_replicas_of_chosen_topics(tmp_path: Path) -> None:
    brokerless.backup(three_nodes(tmp_path), tmp_path / "backup", name="nightly")
    result = drilled(tmp_path / "backup", topics=["orders"], spread=True)
    assert result.is_clean
    assert check(result, "start").counts == {"nodes": 3, "directories": 3}
    assert {each.rpartition("-")[0] for each in result.partitions or ()} == {"orders"}


def test_a_chosen_topic_that_the_snapshot_lacks_is_refused(place: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no topic order; did you mean orders\?"):
        drilled(place, topics=["order"])


def test_a_position_past_the_end_of_a_log_is_found(tmp_path: Path) -> None:
    """As of a disk that lost the end of its logs, and not the group's position in one."""
    brokerless.backup(earlier(tmp_path / "disk", 1), tmp_path / "backup", name="nightly")
    result = drilled(tmp_path / "backup")
    assert [each.name for each in result.checks if not each.is_clean] == ["positions"]
    positions = check(result, "positions")
    assert (positions.counts["positions"], positions.counts["pastEnd"]) == (1, 1)
    (finding,) = positions.findings
    assert finding.kind == Kind.POSITION_PAST_END
    assert CONSUMER_OFFSETS in finding.file


def test_all_replicas_of_all_nodes_are_checked_with_spread(tmp_path: Path) -> None:
    brokerless.backup(three_nodes(tmp_path), tmp_path / "backup", name="nightly")
    alone, spread = drilled(tmp_path / "backup"), drilled(tmp_path / "backup", spread=True)
    assert alone.is_clean
    assert spread.is_clean
    assert check(spread, "start").counts == {"nodes": 3, "directories": 3}
    assert check(spread, "offsets").counts["partitions"] == check(alone, "offsets").counts["partitions"]
    assert check(spread, "offsets").counts["records"] > check(alone, "offsets").counts["records"]
    assert len(spread.not_tried) == len(alone.not_tried) - 1


def test_an_encrypted_backup_takes_one_of_its_keys(tmp_path: Path) -> None:
    private, public = key_files(tmp_path, "ops", "safe", "other")
    own = {name: public[name] for name in ("ops", "safe")}
    brokerless.backup(DEMO, tmp_path / "backup", name="nightly", public_keys=own)
    for name in ("ops", "safe"):
        assert drilled(tmp_path / "backup", key_pairs={name: private[name]}).is_clean
    with pytest.raises(UnreadableError, match="encrypted with key pair ops, which was not given"):
        drilled(tmp_path / "backup")
    with pytest.raises(UnreadableError, match="does not fit"):
        drilled(tmp_path / "backup", key_pairs={"ops": private["other"]})


def test_the_evidence_is_what_was_tried(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "drill.json"
    file.write_text("of an earlier drill")
    result = drilled(place, evidence=file)
    found = json.loads(file.read_text())
    assert found == json.loads(json.dumps(result.as_dict()))
    assert (found["snapshot"], found["name"], found["isClean"]) == (result.snapshot.id, "nightly", True)
    assert [each["check"] for each in found["checks"]] == CHECKS
    assert result.began + found["durationMs"] == result.ended


def test_what_cannot_be_drilled_is_refused_before_anything_is_written(place: Path, tmp_path: Path) -> None:
    with pytest.raises(UnwritableError, match="this is a directory"):
        drilled(place, evidence=tmp_path)
    with pytest.raises(UsageError, match="which is read"):
        drilled(place, scratch=place / "scratch")
    with pytest.raises(UsageError, match="this is no backup"):
        brokerless.Backup(DEMO).drill()
    with pytest.raises(UsageError, match="no snapshot is called"):
        brokerless.Backup(f"{place}@other").drill()


def test_what_retention_would_delete_is_said_and_is_no_fault(tmp_path: Path) -> None:
    rows = rebuild_rows(brokerless.rebuild(DEMO, tmp_path / "plan"))
    config = {"table": "configs", "resourceType": "topic", "resourceName": "orders"}
    rows = [*rows, {**config, "name": "retention.ms", "value": "60000"}]
    (tmp_path / "state.jsonl").write_text("".join(json.dumps(each) + "\n" for each in rows))
    brokerless.rebuild(DEMO, tmp_path / "disks", state=tmp_path / "state.jsonl", apply=True)
    brokerless.backup(tmp_path / "disks" / "node-1", tmp_path / "backup", name="nightly")
    result = drilled(tmp_path / "backup")
    assert result.is_clean
    assert {(each.kind, each.severity) for each in check(result, "rebuild").findings} == {
        (Kind.RETENTION_DELETES, "info")
    }


class TestEvidence:
    def test_it_is_signed_beside_the_file_and_in_the_backup(self, place: Path, tmp_path: Path) -> None:
        private, public = ed25519_pair(tmp_path)
        result = drilled(place, evidence=tmp_path / "drill.json", record=True, sign_key=private)
        data = (tmp_path / "drill.json").read_bytes()
        signed = (tmp_path / "drill.json.sig").read_bytes()
        assert is_signed_by(public_bytes(load_public_key(str(public))), data, signed)
        stored = sorted((place / ".brokerless" / "drills").iterdir())
        assert [each.suffix for each in stored] == [".json", ".sig"]
        assert [each.read_bytes() for each in stored] == [data, signed]
        assert stored[0].stem.endswith(result.snapshot.id)
        assert brokerless.Backup(place).check().findings == ()

    def test_a_key_that_signs_nothing_is_refused_before_the_drill(self, place: Path, tmp_path: Path) -> None:
        private, public = ed25519_pair(tmp_path)
        with pytest.raises(UsageError, match="it is the evidence that is signed"):
            drilled(place, sign_key=private)
        with pytest.raises(UsageError, match="no private key"):
            drilled(place, sign_key=public, record=True, scratch=tmp_path / "scratch")
        assert not (tmp_path / "scratch").exists()
