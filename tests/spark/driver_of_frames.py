"""What the tests run on a cluster with DataFrames: what is read is written again, at once and as a stream."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession


def main(master: str, source: str, to: str) -> None:
    directory = Path(to)

    def wait_in_the_middle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hands on the first rows, and the others when a file is there."""
        for number, batch in enumerate(batches):
            yield batch
            if not number:
                (directory / f"waiting-{os.getpid()}").touch()
                while not (directory / "go-on").exists():
                    time.sleep(0.02)

    session = SparkSession.builder.master(master).appName("frames").getOrCreate()  # pyright: ignore
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
    options = {"includeHeaders": "true", "mode": "DROPMALFORMED"}
    frame = session.read.format("brokerless").options(**options).load(source)
    slow = frame.mapInArrow(wait_in_the_middle, frame.schema)
    slow.write.format("brokerless").mode("append").save(f"{to}/sink")
    stream = (
        session.readStream.format("brokerless")
        .options(startingOffsets="earliest", maxOffsetsPerTrigger="1500", **options)
        .load(source)
        .writeStream.format("brokerless")
        .option("checkpointLocation", f"{to}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{to}/stream")
    )
    stream.awaitTermination()
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
