"""A Spark job that streams a topic's records from a log directory into Parquet files, a few at a time, until it is
killed. Run as a program, with a log directory, a topic, and where files and checkpoint go."""

from __future__ import annotations

import os
import sys

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter


def to_parquet(spark: SparkSession, logs: str, topic: str, target: str) -> DataStreamWriter:
    options = {"subscribe": topic, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "20"}
    frame: DataFrame = spark.readStream.format("brokerless").options(**options).load(logs)
    return frame.writeStream.format("parquet").option("checkpointLocation", f"{target}/checkpoint")


def main(logs: str, topic: str, target: str) -> None:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[1]").config("spark.log.level", "OFF").getOrCreate()
    to_parquet(spark, logs, topic, target).start(f"{target}/files").awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
