from __future__ import annotations

import pytest

from brokerless.errors import UnreadableError
from brokerless.log.completion.files import Completion, complete
from brokerless.log.storage.location import DirectoryEntry, Location


def completed(*names: str, ends: dict[str, int] | None = None) -> Completion:
    entries = [DirectoryEntry(name, Location(f"/log/{name}"), is_directory=False) for name in names]
    return complete(entries, lambda entry, base_offset, index: (ends or {})[entry.name])


def name(offset: int, suffix: str) -> str:
    return f"{offset:020}.{suffix}"


def reasons(completion: Completion) -> dict[str, str]:
    return {each.entry.name: each.reason for each in completion.remove}


def there(completion: Completion) -> dict[str, str]:
    return {name: entry.name for name, entry in completion.live.items()}


WHOLE = [name(offset, kind) for offset in (0, 10, 20) for kind in ("log", "index", "timeindex", "snapshot")]


def test_a_directory_without_orphaned_files_stays_as_it_is() -> None:
    found = completed(*WHOLE, "partition.metadata", "leader-epoch-checkpoint", "notes.txt")
    assert not found.is_needed
    assert there(found) == {each: each for each in WHOLE}
    assert sorted(found.logs) == [0, 10, 20]


def test_what_waits_for_its_deletion_and_unfinished_compactions_go() -> None:
    gone = {
        name(30, "log.deleted"): "deleted",
        name(30, "snapshot.deleted"): "deleted",
        name(0, "log.cleaned"): "cleaned",
        name(0, "index.cleaned"): "cleaned",
    }
    assert reasons(completed(*WHOLE, *gone)) == gone


def test_kraft_snapshots_are_not_touched() -> None:
    assert not completed("00000000000000000010-0000000001.checkpoint.deleted", *WHOLE).is_needed


def test_a_finished_compaction_replaces_all_segments_from_its_first_to_its_last_offset() -> None:
    swaps = [name(0, "log.swap"), name(0, "index.swap"), name(0, "timeindex.swap")]
    found = completed(*WHOLE, *swaps, ends={swaps[0]: 20})
    assert reasons(found) == {each: "replaced" for each in WHOLE if not each.startswith(f"{20:020}")}
    assert found.span == (0, 20)
    assert {*found.renamed_names} == {(each, each.removesuffix(".swap")) for each in swaps}
    last = {each: each for each in WHOLE if each.startswith(f"{20:020}")}
    assert there(found) == {each.removesuffix(".swap"): each for each in swaps} | last


def test_segments_between_two_finished_ones_are_replaced_as_well() -> None:
    swaps = {name(0, "log.swap"): 10, name(20, "log.swap"): 30}
    found = completed(*WHOLE, *swaps, ends=swaps)
    assert {*reasons(found)} == {*WHOLE}
    assert sorted(found.logs) == [0, 20]


def test_an_empty_one_replaces_the_segment_whose_name_it_gets() -> None:
    """Nothing is deleted for it: a file that is renamed takes the place of another one."""
    found = completed(*WHOLE, name(10, "log.swap"), ends={name(10, "log.swap"): 10})
    assert reasons(found) == {name(10, "log"): "replaced"}
    assert there(found)[name(10, "log")] == name(10, "log.swap")


def test_a_compaction_of_which_one_segment_is_unfinished_goes_from_there_on() -> None:
    found = completed(
        *WHOLE, name(10, "log.cleaned"), name(20, "log.swap"), name(0, "log.swap"), ends={name(0, "log.swap"): 5}
    )
    assert reasons(found).items() >= {(name(10, "log.cleaned"), "cleaned"), (name(20, "log.swap"), "swap-unfinished")}
    assert found.renamed_names == ((name(0, "log.swap"), name(0, "log")),)


def test_indexes_without_their_log_go_but_snapshots_stay() -> None:
    orphans = [name(30, "index"), name(30, "timeindex"), name(30, "txnindex")]
    assert reasons(completed(*WHOLE, *orphans, name(30, "snapshot"))) == dict.fromkeys(orphans, "index-orphaned")
    assert reasons(completed(*WHOLE, name(30, "index.swap"))) == {name(30, "index.swap"): "index-orphaned"}


def test_an_index_that_is_left_to_be_renamed_belongs_to_the_log_that_was_renamed_before() -> None:
    found = completed(*WHOLE, name(10, "index.swap"))
    assert reasons(found) == {name(10, "index"): "replaced"}
    assert there(found)[name(10, "index")] == name(10, "index.swap")


def test_a_file_whose_end_cannot_be_found_is_not_passed_over() -> None:
    def end_of(entry: DirectoryEntry, base_offset: int, index: DirectoryEntry | None) -> int:
        raise UnreadableError(entry.path, "Input/output error")

    swap = DirectoryEntry(name(0, "log.swap"), Location("/log/swap"), is_directory=False)
    with pytest.raises(UnreadableError, match="Input/output error"):
        complete([swap], end_of)


def test_of_files_of_unknown_kinds_the_last_suffix_counts() -> None:
    swaps = [name(10, "bloom.swap"), name(20, "log.swap")]
    found = completed(name(10, "log"), name(10, "bloom.deleted"), *swaps, ends={name(20, "log.swap"): 30})
    assert reasons(found) == {name(10, "bloom.deleted"): "deleted"}
    assert found.renamed_names == ((name(10, "bloom.swap"), name(10, "bloom")), (name(20, "log.swap"), name(20, "log")))
    unfinished = completed(name(10, "log"), name(10, "bloom.cleaned"), name(20, "log.swap"))
    assert reasons(unfinished) == {name(10, "bloom.cleaned"): "cleaned", name(20, "log.swap"): "swap-unfinished"}
