from __future__ import annotations

import gc
import sys
import weakref
from types import ModuleType

import pytest

from brokerless.jobs.run.spark_worker import keep_what_is_loaded, keep_what_was_loaded_with


class Node:
    def __init__(self) -> None:
        self.own = self


def test_what_is_loaded_is_not_looked_through_again_and_what_comes_later_is() -> None:
    keep_what_was_loaded_with.cache_clear()
    garbage = weakref.ref(Node())
    gc.unfreeze()
    keep_what_is_loaded()
    assert garbage() is None, "garbage is not kept"
    frozen = gc.get_freeze_count()
    assert frozen > 1000
    later = weakref.ref(Node())
    keep_what_is_loaded()
    assert gc.get_freeze_count() <= frozen, "once, or garbage of later tasks would stay"
    gc.collect()
    assert later() is None


def test_what_the_next_tasks_load_is_not_looked_through_either(monkeypatch: pytest.MonkeyPatch) -> None:
    keep_what_is_loaded()
    later = [Node() for _ in range(1000)]
    monkeypatch.setitem(sys.modules, "loaded.later", ModuleType("later"))
    frozen = gc.get_freeze_count()
    keep_what_is_loaded()
    assert gc.get_freeze_count() >= frozen + len(later)
