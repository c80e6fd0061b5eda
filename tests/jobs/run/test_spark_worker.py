from __future__ import annotations

import gc
import weakref

from brokerless.jobs.run.spark_worker import keep_what_is_loaded


class Node:
    def __init__(self) -> None:
        self.own = self


def test_what_is_loaded_is_not_looked_through_again_and_what_comes_later_is() -> None:
    keep_what_is_loaded.cache_clear()
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
