from __future__ import annotations

from brokerless.log.recovery.orphaned_files import OrphanedFiles, plan_orphaned_files
from brokerless.log.storage.location import DirectoryEntry, Location


def plan(*names: str, ends: dict[str, int] | None = None) -> OrphanedFiles:
    entries = [DirectoryEntry(name, Location(f"/log/{name}"), is_directory=False) for name in names]
    return plan_orphaned_files(entries, lambda entry: (ends or {})[entry.name])


def name(offset: int, suffix: str) -> str:
    return f"{offset:020}.{suffix}"


WHOLE = [name(offset, kind) for offset in (0, 10, 20) for kind in ("log", "index", "timeindex", "snapshot")]


def test_a_directory_without_orphaned_files_stays_as_it_is() -> None:
    assert plan(*WHOLE, "partition.metadata", "leader-epoch-checkpoint", "notes.txt") == OrphanedFiles()


def test_what_waits_for_its_deletion_and_unfinished_compactions_go() -> None:
    gone = [name(30, "log.deleted"), name(30, "snapshot.deleted"), name(0, "log.cleaned"), name(0, "index.cleaned")]
    assert {*plan(*WHOLE, *gone).remove} == {*gone}


def test_kraft_snapshots_are_not_touched() -> None:
    assert plan("00000000000000000010-0000000001.checkpoint.deleted", *WHOLE) == OrphanedFiles()


def test_a_finished_compaction_replaces_all_segments_from_its_first_to_its_last_offset() -> None:
    swaps = [name(0, "log.swap"), name(0, "index.swap"), name(0, "timeindex.swap")]
    found = plan(*WHOLE, *swaps, ends={swaps[0]: 20})
    assert {*found.remove} == {each for each in WHOLE if not each.startswith(f"{20:020}")}
    assert {*found.rename} == {(each, each.removesuffix(".swap")) for each in swaps}


def test_a_compaction_of_which_one_segment_is_unfinished_goes_from_there_on() -> None:
    found = plan(
        *WHOLE, name(10, "log.cleaned"), name(20, "log.swap"), name(0, "log.swap"), ends={name(0, "log.swap"): 5}
    )
    assert {*found.remove} >= {name(10, "log.cleaned"), name(20, "log.swap")}
    assert found.rename == ((name(0, "log.swap"), name(0, "log")),)


def test_indexes_without_their_log_go_but_snapshots_stay() -> None:
    orphans = [name(30, "index"), name(30, "timeindex"), name(30, "txnindex")]
    assert {*plan(*WHOLE, *orphans, name(30, "snapshot")).remove} == {*orphans}
    assert plan(*WHOLE, name(30, "index.swap")) == OrphanedFiles((name(30, "index.swap"),), ())
