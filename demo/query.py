"""Questions to ``demo/data`` in Spark SQL; ``make demo`` runs it, and so does ``.venv/bin/python demo/query.py``."""

from __future__ import annotations

import os
import sys
import textwrap

from pyspark.sql import SparkSession

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # executors need the packages of this environment
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()


def ask(question: str, sql: str) -> None:
    print(f"{question}\n{textwrap.indent(textwrap.dedent(sql).strip(), '    ')}\n", flush=True)
    spark.sql(sql).show()


def read(view: str, **options: str) -> None:
    spark.read.format("brokerless").options(**options).load("demo/data").createOrReplaceTempView(view)


read("orders", subscribe="orders")
ask(
    "Orders by country, from the JSON in their values",
    """
    SELECT event.country, count(*) AS orders, round(sum(event.total), 2) AS total
    FROM (SELECT from_json(string(value), 'status string, country string, total double') AS event FROM orders)
    WHERE event.status = 'placed' GROUP BY event.country ORDER BY total DESC
    """,
)

read("payments", subscribe="payments")
read("committed_payments", subscribe="payments", **{"kafka.isolation.level": "read_committed"})
ask(
    "Payments: whoever counts aborted transactions counts money that was never booked",
    """
    SELECT 'read_uncommitted' AS isolation, count(*) AS payments,
           round(sum(double(get_json_object(string(value), '$.amount'))), 2) AS amount FROM payments
    UNION ALL
    SELECT 'read_committed', count(*),
           round(sum(double(get_json_object(string(value), '$.amount'))), 2) FROM committed_payments
    """,
)

read("batches", subscribe="orders", table="batches", checksums="false")
ask(
    "What each codec saved; this reads no more than the headers of batches",
    """
    SELECT compression, count(*) AS batches, sum(count) AS records,
           round(sum(sizeInBytes) / sum(count), 1) AS bytesPerRecord
    FROM batches GROUP BY compression ORDER BY bytesPerRecord
    """,
)

spark.stop()
