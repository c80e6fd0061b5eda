from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from brokerless.errors import UsageError
from brokerless.serving.groups.offsets import Committed, CommittedOffsets, read_file


def test_commits_are_in_the_file_when_they_are_answered(tmp_path: Path) -> None:
    path = tmp_path / "offsets.jsonl"

    async def play() -> None:
        offsets = CommittedOffsets(print, path)
        one, other = Committed(5, 1, "any", 7), Committed(9, -1, "", 8)
        await asyncio.gather(
            offsets.commit("readers", {("orders", 0): one}),
            offsets.commit("readers", {("orders", 1): other}),
            offsets.commit("readers", {("orders", 1): one}),
        )
        assert list(read_file(path)) == [("readers", ("orders", 0), one), ("readers", ("orders", 1), one)]
        assert offsets.count == 2

    asyncio.run(play())


@pytest.mark.parametrize("line", ["{}", "nonsense", '{"group":"a","topic":"b","partition":0,"offset":-1}', "[1]"])
def test_a_file_of_another_form_is_refused(tmp_path: Path, line: str) -> None:
    path = tmp_path / "offsets.jsonl"
    path.write_text(f'{{"group":"a","topic":"b","partition":0,"offset":1}}\n{line}\n')
    with pytest.raises(UsageError, match=r"offsets\.jsonl, line 2: this is no committed offset"):
        list(read_file(path))


def test_a_file_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert list(read_file(tmp_path / "none")) == []
