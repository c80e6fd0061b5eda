"""Objects of a snapshot that are copied within their store for brokers."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.jobs.backup.disks import DEMO, earlier, objects_in, rows_of
from tests.s3 import ENVIRONMENT, S3

import brokerless
from brokerless import UsageError

pytestmark = pytest.mark.xdist_group("s3")


def test_only_the_segments_of_the_snapshot_are_copied_byte_for_byte(tmp_path: Path) -> None:
    place, copy = tmp_path / "backup", tmp_path / "copy"
    brokerless.backup(earlier(tmp_path / "disk", 1), place, name="first")
    brokerless.backup(DEMO, place)
    brokerless.rebuild(f"{place}@first", tmp_path / "to", in_bucket=True, copy_to=copy, apply=True)
    found = objects_in(copy)
    assert {each.split("-")[0] for each in found} == {"orders", "payments"}
    assert found < objects_in(place)
    assert all((copy / each).read_bytes() == (place / each).read_bytes() for each in found)


def test_nothing_is_copied_without_apply(tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup")
    brokerless.rebuild(f"{tmp_path / 'backup'}@latest", tmp_path / "to", in_bucket=True, copy_to=tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_run_goes_on_with_what_was_copied_and_copies_cut_objects_again(tmp_path: Path) -> None:
    place, copy = tmp_path / "backup", tmp_path / "copy"
    brokerless.backup(DEMO, place)
    options = {"in_bucket": True, "copy_to": copy, "apply": True}
    brokerless.rebuild(f"{place}@latest", tmp_path / "one", **options)
    whole, cut, *_ = sorted(copy.glob("orders-*/*/*.log"))
    os.utime(whole, (1, 1))
    cut.write_bytes(b"cut")
    brokerless.rebuild(f"{place}@latest", tmp_path / "two", **options)
    assert whole.stat().st_mtime == 1
    assert cut.read_bytes() == (place / cut.relative_to(copy)).read_bytes()


@pytest.mark.parametrize("target", ["backup", "backup/inside", "other"])
def test_a_place_in_a_backup_is_refused(target: str, tmp_path: Path) -> None:
    for each in ("backup", "other"):
        brokerless.backup(DEMO, tmp_path / each)
    with pytest.raises(UsageError, match="this is in a backup"):
        brokerless.rebuild(f"{tmp_path / 'backup'}@latest", tmp_path / "to", in_bucket=True, copy_to=tmp_path / target)


def test_another_store_is_refused(tmp_path: Path) -> None:
    brokerless.backup(DEMO, tmp_path / "backup")
    with pytest.raises(UsageError, match="not in the store of the backup"):
        brokerless.rebuild(f"{tmp_path / 'backup'}@latest", tmp_path / "to", in_bucket=True, copy_to="memory://copy")


def test_a_store_copies_them_itself(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*ENVIRONMENT, "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    place, copy, options = s3.url("stored/backup"), s3.url("stored/copy"), {"storage_options": s3.storage_options}
    brokerless.backup(DEMO, place, **options)
    brokerless.rebuild(f"{place}@latest", tmp_path / "to", in_bucket=True, copy_to=copy, apply=True, **options)
    assert rows_of(brokerless.open(copy, **options), ["orders"]) == rows_of(DEMO, ["orders"])
    assert rows_of(tmp_path / "to" / "node-1", ["users"]) == rows_of(DEMO, ["users"])
