"""Keeps garbage collection in Spark's Python workers from visiting loaded modules again and again."""

from __future__ import annotations

import gc
import sys
from functools import cache


def keep_what_is_loaded() -> None:
    """Takes all objects that there are out of garbage collection: the first time that it is called, and again when
    more modules are loaded by then.

    To be called when a task is done, and so what it needs is imported. Spark's daemon collects garbage after each task
    (``pyspark.daemon``, 4.3), and each time would look through Numba's and PySpark's 130,000 objects: for 0.09
    seconds, in which the worker cannot take the next task.
    """
    keep_what_was_loaded_with(len(sys.modules))


@cache
def keep_what_was_loaded_with(modules: int) -> None:
    """The same, once for each number of modules."""
    gc.collect()
    gc.freeze()
