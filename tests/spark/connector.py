"""A Spark job that reads the same topics with spark-sql-kafka and with brokerless: changing the format and the servers
to a path is all the difference. Run as a program: one JSON object on standard input, one on standard output.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"
"""The newest that resolves whole; it runs with PySpark up to 4.3."""
IN_PYSPARK = "org.apache.hadoop:hadoop-client-runtime,org.apache.hadoop:hadoop-client-api"


def session(ivy: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.jars.packages", CONNECTOR)
        .config("spark.jars.excludes", IN_PYSPARK)
        .config("spark.jars.ivy", ivy)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )


def rows(frame: DataFrame) -> list[Any]:
    found = frame.collect()
    return [frame.schema.simpleString(), sorted(repr(row) for row in found)]


def result(frame: Any) -> Any:
    try:
        return rows(frame())
    except Exception as error:
        return ["error", type(error).__name__, str(error)[:500]]


def main() -> None:
    asked = json.load(sys.stdin)
    spark = session(asked["ivy"])
    answers = []
    for options in asked["cases"]:
        reader = lambda name: spark.read.format(name).options(**options)  # noqa: B023, E731
        kafka = result(lambda: reader("kafka").option("kafka.bootstrap.servers", asked["servers"]).load())  # noqa: B023
        ours = result(lambda: reader("brokerless").load(asked["path"]))  # noqa: B023
        answers.append([kafka, ours])
    json.dump(answers, sys.stdout)


if __name__ == "__main__":
    main()
