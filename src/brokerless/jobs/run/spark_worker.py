"""Keeps garbage collection in Spark's Python workers from visiting loaded modules again and again."""

from __future__ import annotations

import gc
from functools import cache


@cache
def keep_what_is_loaded() -> None:
    """Takes all objects that there are out of garbage collection, the first time that it is called.

    To be called when a task is done, and so everything is imported. Spark's daemon collects garbage after each task
    (``pyspark.daemon``, 4.3), and each time would look through Numba's and PySpark's 130,000 objects: for 0.09
    seconds, in which the worker cannot take the next task.
    """
    gc.collect()
    gc.freeze()
