"""An erasure of log directories as a whole, as Python has it."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.golden import broker_data

import brokerless


def test_an_erasure_says_where_copies_are_and_that_replicas_are_the_same(tmp_path: Path) -> None:
    for name in ("b1", "b2"):
        shutil.copytree(broker_data("clean"), tmp_path / name)
    shutil.copytree(tmp_path / "b1" / "txn-0", tmp_path / "b1" / "txn-0.5f3c0a1b2c3d4e5f8091a2b3c4d5e6f7-delete")
    log, other = brokerless.open(tmp_path / "b1"), brokerless.open(tmp_path / "b2")
    erased = log.erase(tmp_path / "to", others=other, where="topic = 'txn' AND \"offset\" < 5")
    assert len(erased) == len(log) + len(other)
    assert {each.name for each in erased.replicas} >= {"txn-0", "segments-0"}
    assert all(each.is_same for each in erased.replicas)
    assert any("txn-0.5f3c0a1b" in each.path for each in erased.copies)
    assert (erased.fields, erased.finished) == ([], 0)
