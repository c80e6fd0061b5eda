"""Pipelines for tests, and what their tables have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from deltalake import DeltaTable
from numpy.typing import NDArray
from tests.jobs.exports import table
from tests.jobs.tables import own_catalog
from tests.log.whole_batches import batch

from brokerless.jobs.pipeline.job import PipelineRun, run_pipeline
from brokerless.jobs.pipeline.settings import Settings
from brokerless.table_formats.catalog import table_name

PRIVATE = "_brokerless-pipeline"


def pipeline(source: Path, to: Path, **settings: Any) -> PipelineRun:
    """One run in this process, without a page; of Parquet files if nothing else is said."""
    own = Settings((str(source),), str(to), **{"report": False, "form": "parquet", **settings})
    return run_pipeline(own, spark="none")


def rows_of(to: Path, name: str, form: str, namespace: str = "kafka") -> pa.Table:
    """A table as the format's own library reads it."""
    if form == "iceberg":
        return own_catalog(to).load_table((namespace, name)).scan().to_arrow()
    return pa.table(DeltaTable(str(to / name)).to_pyarrow_table())


def own_table(to: Path, name: str, form: str = "parquet") -> list[dict[str, Any]]:
    """One of the pipeline's own tables, by a reader that knows nothing of us."""
    if form == "iceberg":
        return rows_of(to, name, form, "kafka_pipeline").to_pylist()
    if form == "delta":
        return rows_of(to / PRIVATE, name, form).to_pylist()
    return ds.dataset(to / PRIVATE / name).to_table().to_pylist()


def table_offsets(to: Path, topic: str, partition: int, form: str = "parquet") -> NDArray[np.int64]:
    """The offsets that the table of a topic has of a partition, by a reader that knows nothing of us."""
    if form == "parquet":
        found = ds.dataset(to / f"topic={topic}", format="parquet")
        return found.to_table(["offset"], filter=ds.field("partition") == partition)["offset"].to_numpy()
    kafka = rows_of(to, table_name(topic), form)["kafka"].combine_chunks()
    return pc.struct_field(kafka, "offset").to_numpy()[pc.struct_field(kafka, "partition").to_numpy() == partition]


def offsets(to: Path, topic: str = "t") -> list[int]:
    return [row["offset"] for row in table(to) if row["topic"] == topic]


def segments(directory: Path, *spans: range, size: int = 10, wrong: tuple[int, ...] = ()) -> Path:
    """A partition with a segment for each span of offsets, in batches of ``size`` records; those batches that begin at
    ``wrong`` have another checksum than their bytes."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n")
    for span in spans:
        batches = [bytearray(batch(first, size).tobytes()) for first in span[::size]]
        for each, first in zip(batches, span[::size], strict=True):
            each[-1] ^= first in wrong
        (directory / f"{span.start:020d}.log").write_bytes(b"".join(batches))
    return directory
