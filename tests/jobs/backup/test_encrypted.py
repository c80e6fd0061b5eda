"""What is encrypted is read with each of its keys, with no other, and goes on without any."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.jobs.backup.disks import COLUMNS, DEMO, REPLICAS, batches_of, earlier, objects_in, rows_of
from tests.jobs.backup.rsa_keys import Files, key_files

import brokerless
from brokerless.errors import UnreadableError, UsageError
from brokerless.findings import Finding
from brokerless.jobs.backup import partition


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "backup"


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Files, Files]:
    return key_files(tmp_path, "ops", "safe", "new")


def only(files: Files, *names: str) -> Files:
    return {each: files[each] for each in names}


def backup(disk: Path, place: Path, public: Files, **options: Any) -> Any:
    return brokerless.backup(disk, place, public_keys=only(public, "ops", "safe"), **options)


def damage_of(place: str, keys: Files | None = None) -> set[str]:
    found: list[Finding] = []
    for each in brokerless.open(place, key_pairs=keys).partitions:
        each.records(COLUMNS, on_damage=found.append).read_all()
    return {each.kind for each in found}


@pytest.mark.parametrize("compress", [False, True])
def test_each_key_reads_what_the_disk_has(
    compress: bool, place: Path, tmp_path: Path, keys: tuple[Files, Files]
) -> None:
    private, public = keys
    disk = earlier(tmp_path / "earlier", 3)
    backup(disk, place, public, name="first", compress=compress)
    result = backup(DEMO, place, public, name="second", compress=compress)
    assert result.is_complete
    assert result.snapshot.key_pairs == ("ops", "safe")
    assert 0 < result.snapshot.new_size < result.snapshot.size
    for name in ("ops", "safe"):
        key = only(private, name)
        assert rows_of(brokerless.open(f"{place}@second", key_pairs=key)) == rows_of(DEMO)
        assert batches_of(brokerless.open(place, key_pairs=key)) == batches_of(DEMO)
        assert rows_of(brokerless.open(f"{place}@first", key_pairs=key)) == rows_of(disk)
        opened = brokerless.open(f"{place}@second", key_pairs=key)
        assert not [each for each in opened.verify() if each.severity != "info"]
    assert not brokerless.Backup(place).check("all").findings


def test_without_a_key_there_is_nothing_to_read(place: Path, keys: tuple[Files, Files]) -> None:
    private, public = keys
    backup(DEMO, place, public)
    stored = b"".join(each.read_bytes() for each in place.rglob("*") if each.is_file())
    for secret in (b"shipping", b"newsletter", b"u-0200", b"node.id", b"PRIVATE"):
        assert secret not in stored
    for opened in (brokerless.open(place), brokerless.open(place, key_pairs=only(private, "new"))):
        assert not any(rows for rows in rows_of_intact(opened).values())
    assert damage_of(str(place)) == {"remote-key-missing"}


@pytest.mark.parametrize("name", ["ops", "safe"])
def test_a_key_that_does_not_fit_is_refused_when_the_snapshot_is_opened(
    name: str, place: Path, keys: tuple[Files, Files]
) -> None:
    private, public = keys
    backup(DEMO, place, public, topics=["users"])
    with pytest.raises(UnreadableError, match=f"key pair {name} does not fit") as refused:
        brokerless.open(place, key_pairs={name: private["new"]})
    assert refused.value.kind == "remote-key-missing"


def test_a_key_that_fits_some_runs_reads_these(place: Path, keys: tuple[Files, Files]) -> None:
    """As where the name was used again for another key."""
    private, public = keys
    backup(DEMO, place, public, topics=["users"])
    later = {"ops": public["new"], "safe": public["safe"]}
    brokerless.backup(DEMO, place, public_keys=later, topics=["users", "payments"])
    for key, topic in (("ops", "users"), ("new", "payments")):
        own = {"ops": private[key]}
        assert damage_of(str(place), own) == {"remote-key-missing"}
        assert rows_of(brokerless.open(place, key_pairs=own), [topic]) == rows_of(DEMO, [topic])


@pytest.mark.parametrize("job", ["merge", "salvage"])
def test_nothing_is_recovered_of_what_no_key_reads(
    job: str, place: Path, tmp_path: Path, keys: tuple[Files, Files]
) -> None:
    """An empty log would pass for what was there."""
    backup(DEMO, place, keys[1], topics=["users"])
    without_key = brokerless.open(place)
    with pytest.raises(UnreadableError, match="encrypted with key pair ops, which was not given"):
        brokerless.merge(without_key, tmp_path / "to") if job == "merge" else without_key.salvage(tmp_path / "to")
    assert not list((tmp_path / "to").glob("users-*"))


def rows_of_intact(log: Any) -> dict[str, Any]:
    return {
        each.name: each.records(["offset"], on_damage=lambda _: None).read_all().to_pylist() for each in log.partitions
    }


def test_two_keys_or_one_on_purpose(place: Path, keys: tuple[Files, Files]) -> None:
    private, public = keys
    with pytest.raises(UsageError, match="nobody reads the backup again; give a second"):
        brokerless.backup(DEMO, place, public_keys=only(public, "ops"))
    with pytest.raises(UsageError, match="for one public_keys="):
        brokerless.backup(DEMO, place, public_keys=only(public, "ops", "safe"), one_key=True)
    with pytest.raises(UsageError, match="has the private key") as raised:
        brokerless.backup(DEMO, place, public_keys=only(private, "ops"), one_key=True)
    assert "BEGIN" not in str(raised.value)
    assert not place.exists()
    brokerless.backup(DEMO, place, public_keys=only(public, "ops"), one_key=True)
    with pytest.raises(UsageError, match="this backup is encrypted"):
        brokerless.backup(DEMO, place)
    assert rows_of(brokerless.open(place, key_pairs=only(private, "ops"))) == rows_of(DEMO)


def test_a_backup_that_is_not_encrypted_stays_so(place: Path, keys: tuple[Files, Files]) -> None:
    brokerless.backup(DEMO, place, topics=["users"])
    with pytest.raises(UsageError, match="not encrypted"):
        backup(DEMO, place, keys[1])
    with pytest.raises(UsageError, match="not encrypted"):
        brokerless.Backup(place).keys()


def test_a_second_run_stores_nothing_where_nothing_is_new(place: Path, keys: tuple[Files, Files]) -> None:
    backup(DEMO, place, keys[1])
    before = {each for each in place.rglob("*") if each.parent.name in ("files", "0", "1", "2")}
    assert backup(DEMO, place, keys[1]).snapshot.new_size == 0
    assert {each for each in place.rglob("*") if each.parent.name in ("files", "0", "1", "2")} == before


@pytest.mark.parametrize("small", [0, 1 << 20])
def test_producers_are_followed_without_a_key(
    small: int, place: Path, tmp_path: Path, keys: tuple[Files, Files], monkeypatch: pytest.MonkeyPatch
) -> None:
    private, public = keys
    monkeypatch.setattr(partition, "_SMALL", small)
    disk = tmp_path / "earlier"
    shutil.copytree(DEMO, disk)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (disk / name).unlink()
    log = next((disk / "payments-0").glob("*.log"))
    whole = log.read_bytes()
    rows = [row for batch in brokerless.open(log).partitions[0].batches(["position"]) for row in batch.to_pylist()]
    for share in (4, 2, 1):
        end = rows[len(rows) // share]["position"] if share > 1 else len(whole)
        log.write_bytes(whole[:end])
        result = backup(disk, place, public, topics=["payments"])
        assert "remote-key-missing" not in {each.kind for each in result.findings}
    assert result.is_complete, result.findings
    key = only(private, "safe")
    assert rows_of(brokerless.open(place, key_pairs=key)) == rows_of(DEMO, ["payments"])
    aborted = [each.transactions().to_pylist() for each in brokerless.open(place, key_pairs=key).partitions]
    plain = tmp_path / "plain"
    brokerless.backup(DEMO, plain, topics=["payments"])
    assert aborted == [each.transactions().to_pylist() for each in brokerless.open(plain).partitions]


def test_so_are_they_where_no_segment_before_has_them(place: Path, tmp_path: Path, keys: tuple[Files, Files]) -> None:
    """Of a segment in the middle that is gone: the batches before it are read for that."""
    private, public = keys
    options: dict[str, Any] = {"topics": ["payments"], "segment_size": 4_000}
    backup(DEMO, place, public, **options)
    objects = sorted(place.glob("payments-*/0/*.log"))
    objects[1].unlink()
    result = backup(DEMO, place, public, **options)
    assert {each.kind for each in result.findings} == {"remote-object-missing"}
    log = brokerless.open(place, key_pairs=only(private, "ops"))
    assert rows_of(log) == rows_of(DEMO, ["payments"])
    plain = tmp_path / "plain"
    brokerless.backup(DEMO, plain, **options)
    again, once = (each.partitions[0].transactions().to_pylist() for each in (log, brokerless.open(plain)))
    assert again == once
    assert {each.kind for each in log.verify()} <= {each.kind for each in brokerless.open(plain).verify()}


@pytest.mark.parametrize("suffix", ["log", "indexes"])
def test_exchanged_objects_are_found(suffix: str, place: Path, keys: tuple[Files, Files]) -> None:
    """Chunks have the additional data of their segment; files and manifests have hashes in the snapshot."""
    private, public = keys
    backup(REPLICAS[2], place, public, segment_size=4_000)
    one, other = sorted(place.glob(f"orders-*/0/*.{suffix}"))[:2]
    first, second = one.read_bytes(), other.read_bytes()
    one.write_bytes(second)
    other.write_bytes(first)
    found = brokerless.Backup(place).check("all").findings
    assert {each.file for each in found} >= {str(one), str(other)} or len(first) != len(second)
    if suffix == "log":
        key = only(private, "ops")
        (opened,) = brokerless.open(place, key_pairs=key).partitions
        assert [each for each in opened.verify() if each.severity == "error"]


def test_a_key_is_added_and_removed_without_writing_a_segment(place: Path, keys: tuple[Files, Files]) -> None:
    private, public = keys
    backup(DEMO, place, public, topics=["users"], name="first")
    backup(DEMO, place, public, topics=["users", "payments"], name="second")
    before = objects_in(place)
    backups = brokerless.Backup(place)
    listed = backups.keys()
    assert [sorted(each.data_keys) for each in listed] == [["ops", "safe"]] * 2
    with pytest.raises(brokerless.UnreadableError, match="encrypted for ops, safe, none of which was given"):
        backups.keys(add=only(public, "new"))
    with pytest.raises(brokerless.UnreadableError, match="key pair safe does not fit"):
        backups.keys(add=only(public, "new"), key_pairs={"safe": private["new"]})
    backups.keys(add=only(public, "new"), key_pairs=only(private, "safe"))
    backups.keys(remove=["safe"])
    assert objects_in(place) == before
    for name in ("first", "second"):
        for key in ("ops", "new"):
            opened = brokerless.open(f"{place}@{name}", key_pairs=only(private, key))
            assert rows_of(opened, ["users"]) == rows_of(DEMO, ["users"])
    assert damage_of(str(place), only(private, "safe")) == {"remote-key-missing"}
    with pytest.raises(UsageError, match="ops is the first key pair"):
        backups.keys(remove=["ops"])


@pytest.mark.parametrize(
    "edit",
    [{"dataKeys": {"safe": "AAAA"}}, {"dataKeys": {"safe": "!"}}, {"id": "0"}, {"keyPair": 5}, {"dataKeys": []}],
)
def test_keys_that_are_none_are_a_finding(edit: dict[str, Any], place: Path, keys: tuple[Files, Files]) -> None:
    private, public = keys
    backup(DEMO, place, public, topics=["users"])
    (file,) = (place / ".brokerless" / "keys").iterdir()
    file.write_text(json.dumps({**json.loads(file.read_bytes()), **edit}))
    try:
        found = damage_of(str(place), only(private, "safe"))
    except UnreadableError as error:
        found = {error.kind}
    assert found <= {"remote-key-missing", "unreadable-file"}
    assert found
    assert rows_of(brokerless.open(place, key_pairs=only(private, "ops"))) == rows_of(DEMO, ["users"])


@pytest.mark.parametrize("data", [b"", b"{}", b"{}\n", b'{"dataKey": "ops:AAAA", "aad": ""}\n', b"\xff\n" * 9])
def test_files_that_are_none_are_unreadable(data: bytes, place: Path, keys: tuple[Files, Files]) -> None:
    private, public = keys
    backup(DEMO, place, public)
    for each in (place / ".brokerless" / "files").iterdir():
        each.write_bytes(data)
    opened = brokerless.open(place, key_pairs=private)
    assert rows_of(opened, ["users"]) == rows_of(DEMO, ["users"])
    assert brokerless.Backup(place).check("all").findings


def test_a_key_pair_has_one_name_and_a_name_one_key(place: Path, keys: tuple[Files, Files]) -> None:
    private, public = keys
    with pytest.raises(UsageError, match="key pairs a and b have the same key"):
        brokerless.backup(DEMO, place, public_keys={"a": public["ops"], "b": public["ops"]})
    backup(DEMO, place, keys[1])
    backups, own = brokerless.Backup(place), only(private, "ops")
    with pytest.raises(UsageError, match="there is a key pair safe already"):
        backups.keys(add={"safe": public["new"]}, key_pairs=own)
    with pytest.raises(UsageError, match="there is no key pair nobody; there are ops, safe"):
        backups.keys(remove=["nobody"])
    with pytest.raises(UsageError, match="one key pair would be left"):
        backups.keys(remove=["safe"])


@pytest.mark.parametrize("data", [b"{", None], ids=["damaged", "gone"])
def test_data_keys_are_checked(data: bytes | None, place: Path, keys: tuple[Files, Files]) -> None:
    backup(DEMO, place, keys[1])
    (file,) = (place / ".brokerless" / "keys").iterdir()
    file.unlink() if data is None else file.write_bytes(data)
    (finding,) = brokerless.Backup(place).check().findings
    assert finding.file == str(file)


def test_what_no_key_reads_is_no_difference(place: Path, keys: tuple[Files, Files]) -> None:
    backup(DEMO, place, keys[1])
    found: list[brokerless.Finding] = []
    result = brokerless.diff(DEMO, place, on_damage=found.append)
    assert result.state == () or not list(result.state or ())
    assert {each.kind for each in found} == {"remote-key-missing"}
