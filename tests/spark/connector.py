"""A Spark job that reads the same topics with spark-sql-kafka and with brokerless: changing the format and the servers
to a path is all the difference. Run as a program: one JSON object on standard input, one on standard output. Before it
is a line when queries with checkpoints have read their topics; they go on when a second line comes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import StreamingQuery

CONNECTOR = ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0")
"""The newest, and so one that can stream with PySpark 4.1 and newer; not all that it names can be fetched, so that it
comes alone, and with it:"""
WITH_IT = "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0,org.apache.commons:commons-pool2:2.12.0"
IN_PYSPARK = "org.apache.hadoop:hadoop-client-runtime,org.apache.hadoop:hadoop-client-api"


def session(ivy: str, connector: str) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", connector)
        .config("spark.jars.packages", WITH_IT)
        .config("spark.jars.excludes", IN_PYSPARK)
        .config("spark.jars.ivy", ivy)
        .config("spark.log.level", "OFF")
        .config("spark.sql.codegen.wholeStage", "false")  # which takes longer than to read so few rows
        .config("spark.sql.codegen.factoryMode", "NO_CODEGEN")
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


def start(frame: DataFrame, batches: dict[int, list[Any]]) -> StreamingQuery:
    def note(batch: DataFrame, number: int) -> None:
        batches[number] = rows(batch)

    return frame.writeStream.foreachBatch(note).trigger(availableNow=True).start()


def stream(frames: list[DataFrame]) -> list[Any]:
    """What is in each micro-batch of each, and where it ends; they run side by side."""
    found: list[dict[int, list[Any]]] = [{} for _ in frames]
    queries = [start(frame, batches) for frame, batches in zip(frames, found, strict=True)]
    for query in queries:
        query.awaitTermination()
    ends = [[json.loads(each["sources"][0]["endOffset"]) for each in query.recentProgress] for query in queries]
    return [[[batches[number] for number in sorted(batches)], end] for batches, end in zip(found, ends, strict=True)]


def continued(frames: list[DataFrame], checkpoints: str) -> list[Any]:
    """What queries read that go on from their checkpoints, or the errors with which they end."""
    found: list[list[Any]] = [[] for _ in frames]
    queries: list[StreamingQuery] = []
    for number, (frame, own) in enumerate(zip(frames, found, strict=True)):
        note = lambda batch, _, own=own: own.extend([row.topic, row.offset, row.text] for row in batch.collect())  # noqa: E731
        rows = frame.selectExpr("topic", "offset", "cast(value as string) as text")
        writer = rows.writeStream.foreachBatch(note).option("checkpointLocation", f"{checkpoints}/{number}")
        queries.append(writer.trigger(availableNow=True).start())
    answers: list[Any] = []
    for query, own in zip(queries, found, strict=True):
        try:
            query.awaitTermination()
            answers.append(sorted(own))
        except Exception as error:
            answers.append(str(error))
    return answers


def main() -> None:
    asked = json.loads(sys.stdin.readline())
    spark = session(asked["ivy"], asked["connector"])
    places = (("kafka", {"kafka.bootstrap.servers": asked["servers"]}), ("brokerless", {"path": asked["path"]}))
    strict, lenient = (
        [
            spark.readStream.format(name).options(**asked["continued"], **place, failOnDataLoss=fails).load()
            for name, place in places
        ]
        for fails in ("true", "false")
    )
    began = continued(strict, asked["checkpoints"])
    shutil.copytree(asked["checkpoints"], asked["copies"])
    print("BEGAN", flush=True)
    streams = []
    for options in asked["streams"]:
        reader = lambda name: spark.readStream.format(name).options(**options)  # noqa: B023, E731
        kafka = reader("kafka").option("kafka.bootstrap.servers", asked["servers"]).load()
        streams.append(stream([kafka, reader("brokerless").load(asked["path"])]))

    def both(options: dict[str, Any]) -> list[Any]:
        reader = lambda name: spark.read.format(name).options(**options)  # noqa: E731
        kafka = result(lambda: reader("kafka").option("kafka.bootstrap.servers", asked["servers"]).load())
        return [kafka, result(lambda: reader("brokerless").load(asked["path"]))]

    with ThreadPoolExecutor(4) as pool:  # a query waits more than it works
        answers = list(pool.map(both, asked["cases"]))
    sys.stdin.readline()
    ended = [*continued(strict, asked["checkpoints"]), *continued(lenient, asked["copies"])]
    json.dump({"streams": streams, "answers": answers, "began": began, "ended": ended}, sys.stdout)


if __name__ == "__main__":
    main()
