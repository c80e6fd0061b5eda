"""Names files of the partition that these tests copy."""

from __future__ import annotations

from pathlib import Path


def index(partition: Path, base_offset: int, kind: str) -> Path:
    return partition / f"{base_offset:020}.{kind}"
