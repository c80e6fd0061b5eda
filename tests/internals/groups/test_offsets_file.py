from __future__ import annotations

from pathlib import Path

import pytest

from brokerless.errors import UsageError
from brokerless.internals.groups.offsets_file import read_offsets_file


def test_rows_are_read(tmp_path: Path) -> None:
    path = tmp_path / "offsets.jsonl"
    path.write_text('{"group":"g","topic":"t","partition":1,"offset":5}\n\n')
    row = {"group": "g", "topic": "t", "partition": 1, "offset": 5}
    assert read_offsets_file(str(path)) == [{**row, "leaderEpoch": -1, "metadata": "", "commitTimestamp": -1}]


@pytest.mark.parametrize("text", ["{}", "x", '{"group":"g","topic":"t","partition":"1","offset":5}', "[1]"])
def test_another_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "offsets.jsonl"
    path.write_text(text)
    with pytest.raises(UsageError, match="line 1: this is no committed offset"):
        read_offsets_file(str(path))
    with pytest.raises(UsageError, match="no such file"):
        read_offsets_file(str(tmp_path / "none"))
