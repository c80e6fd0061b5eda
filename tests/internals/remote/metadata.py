"""What brokers wrote into ``__remote_log_metadata`` and ``__cluster_metadata`` of the golden sets of tests.log.tiered.

``metadata.tar.zst`` has for each set ``data`` (the partitions of these topics that have records) and ``events.jsonl``:
all events, decoded by Kafka's RemoteLogMetadataSerde (4.4.0).
"""

from __future__ import annotations

import functools
import hashlib
import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import zstandard
from tests.golden import CACHE
from tests.log.tiered import golden
from tests.once import made_once

ARCHIVE = Path(__file__).parent / "metadata.tar.zst"
SETS = ("killed", "plain", "prefix")


@functools.cache
def metadata() -> Path:
    """The unpacked archive, which tests do not change."""
    archive = ARCHIVE.read_bytes()

    def unpack(target: Path) -> None:
        with (
            zstandard.ZstdDecompressor().stream_reader(archive) as stream,
            tarfile.open(fileobj=stream, mode="r|") as tar,
        ):
            tar.extractall(target, filter="data")

    return made_once(CACHE.with_name("golden-tiered") / hashlib.sha256(archive).hexdigest()[:16], unpack)


def events(set_: str) -> list[dict[str, Any]]:
    """All events of a set, in the order of each metadata partition's log."""
    return [json.loads(line) for line in (metadata() / set_ / "events.jsonl").read_text().splitlines()]


def broker_directory(set_: str, target: Path) -> Path:
    """A copy of a set's log directory, with the topics of metadata."""
    shutil.copytree(golden() / set_ / "data", target)
    shutil.copytree(metadata() / set_ / "data", target, dirs_exist_ok=True)
    return target
