from __future__ import annotations

from pathlib import Path

from tests.log.cleaner import write_log, write_segment
from tests.log.completion.test_removed import swap

from brokerless.log.completion.findings import check_completion, check_removed
from brokerless.log.directory import resolve
from brokerless.log.storage.location import Location


def findings(path: Path, *, as_it_lies: bool = False) -> list[tuple[str, str, str]]:
    (found,) = resolve(Location(str(path)), as_it_lies=as_it_lies).partitions
    names = check_completion(found.completion, found.orphaned_files, found.foreign)
    return [(each.severity, each.kind, Path(each.file).name) for each in names]


def test_a_segment_that_gets_its_name_is_one_finding_and_what_it_replaces_another_for_each_file(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    write_segment(path, 10, [10, 12], ".swap")
    gone = [("info", "leftover-file", f"{10:020}.{kind}") for kind in ("index", "log", "timeindex")]
    assert findings(path) == [("info", "swap-file", f"{10:020}.log.swap"), *gone]


def test_as_it_lies_it_was_not_read(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    swap(path, 20)
    assert findings(path) == [("info", "swap-file", f"{20:020}.log.swap")]
    assert findings(path, as_it_lies=True) == [("warning", "swap-file", f"{20:020}.log.swap")]


def test_an_index_by_itself_is_orphaned(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    (path / f"{99:020}.index").write_bytes(b"")
    (path / f"{98:020}.index.swap").write_bytes(b"")
    assert findings(path) == [
        ("warning", "orphan-index", f"{98:020}.index.swap"),
        ("warning", "orphan-index", f"{99:020}.index"),
    ]


def test_a_log_with_offsets_that_are_lost_is_named_with_these(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    swap(path, 10, 30)
    (found,) = resolve(Location(str(path))).partitions
    (finding,) = check_removed(found.completion)
    assert (finding.kind, finding.severity, finding.offset) == ("segment-replaced", "warning", 20)
    assert "offsets 20 to 29 are in no file that stays" in finding.message
    assert found.findings == (finding,)


def test_an_index_of_a_newer_kafka_is_an_info_that_says_whether_a_start_leaves_it(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0")
    for name in ("bloom", "bloom.swap", "bloom.deleted", "bloom.cleaned"):
        (path / f"{20 if name == 'bloom.cleaned' else 10:020}.{name}").write_bytes(b"")
    (found,) = resolve(Location(str(path))).partitions
    said = {Path(each.file).name[21:]: each for each in check_completion(found.completion, (), found.foreign)}
    assert {name: each.kind for name, each in said.items()} == {
        "bloom": "foreign-file",
        "bloom.swap": "foreign-file",
        "bloom.deleted": "leftover-file",
        "bloom.cleaned": "leftover-file",
    }
    assert {each.severity for each in said.values()} == {"info"}
    assert "leaves it there" in said["bloom"].message
    assert "renames it" in said["bloom.swap"].message
