"""Pipelines for tests, and what their tables have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.dataset as ds
from numpy.typing import NDArray
from tests.jobs.exports import table
from tests.log.whole_batches import batch

from brokerless.jobs.pipeline.job import PipelineRun, run_pipeline
from brokerless.jobs.pipeline.settings import Settings

PRIVATE = "_brokerless-pipeline"


def pipeline(source: Path, to: Path, **settings: Any) -> PipelineRun:
    """One run in this process, without a page."""
    return run_pipeline(
        Settings((str(source),), str(to), report=settings.pop("report", False), **settings), spark="none"
    )


def own_table(to: Path, name: str, form: str = "parquet") -> list[dict[str, Any]]:
    """One of the pipeline's own tables, by a reader that knows nothing of us."""
    return ds.dataset(to / PRIVATE / name).to_table().to_pylist()


def table_offsets(to: Path, topic: str, partition: int, form: str = "parquet") -> NDArray[np.int64]:
    """The offsets that the table of a topic has of a partition, by a reader that knows nothing of us."""
    found = ds.dataset(to / f"topic={topic}", format="parquet")
    return found.to_table(["offset"], filter=ds.field("partition") == partition)["offset"].to_numpy()


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
