"""Backups in an object store are those in a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.jobs.backup.disks import DEMO, batches_of, earlier, rows_of
from tests.jobs.backup.rsa_keys import key_files
from tests.s3 import S3

import brokerless
from brokerless.errors import UnwritableError

pytestmark = pytest.mark.xdist_group("s3")


def test_a_backup_is_stored_read_and_checked(s3: S3, tmp_path: Path) -> None:
    place, options = s3.url("backup/whole"), {"storage_options": s3.storage_options}
    disk = earlier(tmp_path / "earlier", 3)
    brokerless.backup(disk, place, name="first", **options)
    again = brokerless.backup(DEMO, place, name="second", **options)
    assert again.is_complete
    assert 0 < again.snapshot.new_size < again.snapshot.size
    assert rows_of(brokerless.open(f"{place}@second", **options)) == rows_of(DEMO)
    assert batches_of(brokerless.open(place, **options)) == batches_of(DEMO)
    assert rows_of(brokerless.open(f"{place}@first", **options)) == rows_of(disk)
    backup = brokerless.Backup(place, **options)
    assert [each.name for each in backup.snapshots()] == ["first", "second"]
    assert not backup.check("all").findings


def test_a_backup_at_the_root_of_a_bucket_is_named_with_a_slash(s3: S3) -> None:
    fs = s3.file_system()
    fs.mkdir("whole-bucket")
    options: dict[str, Any] = {"storage_options": s3.storage_options}
    brokerless.backup(DEMO, "s3://whole-bucket", topics=["users"], name="first", **options)
    assert rows_of(brokerless.open("s3://whole-bucket/@first", **options)) == rows_of(DEMO, ["users"])


def test_a_store_that_refuses_objects_is_one_sentence_and_the_next_run_completes(
    s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    import s3fs

    place, options = s3.url("backup/refused"), {"storage_options": s3.storage_options}
    pipe = s3fs.S3FileSystem._pipe_file

    async def refuse(self: Any, path: str, *arguments: Any, **named: Any) -> Any:
        if path.endswith(".json") and "snapshots" in path:
            raise PermissionError("Access Denied")
        return await pipe(self, path, *arguments, **named)

    monkeypatch.setattr(s3fs.S3FileSystem, "_pipe_file", refuse)
    s3fs.S3FileSystem.clear_instance_cache()
    with pytest.raises(UnwritableError, match="Access Denied"):
        brokerless.backup(DEMO, place, topics=["users"], **options)
    monkeypatch.undo()
    s3fs.S3FileSystem.clear_instance_cache()
    assert not brokerless.Backup(place, **options).snapshots()
    assert brokerless.backup(DEMO, place, topics=["users"], **options).is_complete
    checked = brokerless.Backup(place, **options).check("all")
    assert not checked.findings
    assert checked.unnamed == 3


def test_an_encrypted_backup_is_read_with_its_key_and_pruned(s3: S3, tmp_path: Path) -> None:
    place, options = s3.url("backup/encrypted"), {"storage_options": s3.storage_options}
    private, public = key_files(tmp_path, "ops", "safe", "new")
    disk = earlier(tmp_path / "earlier", 3)
    for each in (disk, DEMO):
        assert brokerless.backup(
            each, place, public_keys={each: public[each] for each in ("ops", "safe")}, **options
        ).is_complete
    backup = brokerless.Backup(place, **options)
    assert len(backup.forget(keep_last=1, apply=True).forgotten) == 1
    assert not backup.prune(apply=True).objects
    assert not backup.check("all").findings
    opened = brokerless.open(place, key_pairs={"safe": private["safe"]}, **options)
    assert rows_of(opened) == rows_of(DEMO)
    changed = backup.keys(add={"new": public["new"]}, remove=["safe"], key_pairs={"safe": private["safe"]})
    assert [sorted(each.data_keys) for each in changed] == [["new", "ops"]] * 2
