"""What a remote segment is, by all states that it may be in: readers and ``audit`` say of each what was written down,
nothing that has offsets of its own is an orphan, and what is left out is named."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.examples import some_quick
from tests.states.remote_cells import FIRST, LAST, Cell, cells, recorded, said

from brokerless.log.tiered.remote_history import TABLE, InBucket, Standing, is_deleted_first, is_read_alone, standing_of


def test_the_table_has_all_states() -> None:
    assert set(TABLE) == {(standing, found) for standing in Standing for found in InBucket}


def test_the_record_has_all_states() -> None:
    assert list(recorded()) == [str(each) for each in cells()]


@pytest.mark.parametrize("cell", some_quick(list(cells())), ids=str)
def test_all_say_what_is_written_down(cell: Cell, tmp_path: Path) -> None:
    assert said(cell, tmp_path) == recorded()[str(cell)]


@pytest.mark.parametrize("cell", cells(), ids=str)
def test_readers_lack_only_what_nothing_else_has_and_name_it(cell: Cell) -> None:
    row = recorded()[str(cell)]
    if cell.covered or cell.local:
        assert (row["lacks"], row["leaves_out"]) == (None, [])
    elif row["lacks"]:
        assert FIRST <= row["lacks"][0] <= row["lacks"][1] <= LAST
        assert row["leaves_out"]
    else:
        assert cell.objects == "whole"


@pytest.mark.parametrize("cell", cells(), ids=str)
def test_an_orphan_is_what_no_broker_reads_or_deletes_while_its_offsets_are_elsewhere(cell: Cell) -> None:
    may_be = {
        "STARTED": cell.covered,  # it was copied again
        "DELETED": cell.covered or cell.local,
        "none": cell.objects == "whole" and (cell.covered or cell.local),
    }
    is_orphan = "remote-segment-orphaned warning" in recorded()[str(cell)]["audit"]
    assert is_orphan == may_be.get(cell.state, False)


def test_what_the_metadata_says() -> None:
    assert standing_of(None) == Standing.UNKNOWN
    assert standing_of("COPY_SEGMENT_FINISHED", is_referenced=True) == Standing.REFERENCED
    assert standing_of("COPY_SEGMENT_FINISHED") == Standing.REPLACED
    alone = {each for each in Standing if is_read_alone(each)}
    assert alone == {Standing.REFERENCED, Standing.REPLACED, Standing.STARTED, Standing.UNKNOWN}


def test_the_first_segments_of_a_log_are_deleted_on_purpose() -> None:
    assert is_deleted_first(Standing.DELETED, 100, [(200, 300)])
    assert not is_deleted_first(Standing.DELETED, 100, [(0, 100), (200, 300)])
    assert not is_deleted_first(Standing.STARTED, 100, [(200, 300)])
