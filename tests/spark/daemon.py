"""Spark's daemon of Python workers (``pyspark.daemon``), which has loaded what they need before it copies itself.

Else each of them would load it: a second of processor time for each, of which a session starts dozens.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module

from pyspark.daemon import manager

READING = ("brokerless.spark.reader", "brokerless.spark.plan", "brokerless.log.partition")
NEEDED = {
    "pyspark.worker": ("pyspark.sql.pandas.types", *READING, "brokerless.spark.sink"),
    "pyspark.sql.worker.plan_data_source_read": READING,
    "pyspark.sql.worker.data_source_pushdown_filters": READING,
    "pyspark.sql.worker.write_into_data_source": ("brokerless.spark.sink",),
    "pyspark.sql.worker.commit_data_source_write": ("brokerless.spark.sink",),
}
"""Modules by the program of the workers."""


def load(program: str) -> None:
    for each in (program, "pyspark_brokerless", *NEEDED.get(program, ())):
        import_module(each)
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    load(sys.argv[1])
    manager()
