"""Files of segments that were read leave the page cache."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from brokerless.log.storage.segment_files import drop_cached


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="of Linux")
def test_files_leave_the_page_cache_and_those_that_are_gone_or_remote_are_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[int, int, int]] = []
    monkeypatch.setattr(os, "posix_fadvise", lambda _, *arguments: asked.append(arguments))
    (tmp_path / "there.log").write_bytes(b"x")
    drop_cached([str(tmp_path / "gone.log"), "s3://bucket/remote.log", str(tmp_path / "there.log")])
    assert asked == [(0, 0, os.POSIX_FADV_DONTNEED)]
