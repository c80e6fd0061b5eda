"""Charts of a log for notebooks: what ``log.plot`` is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from brokerless.jobs.report import charts
from brokerless.jobs.report.figures import Figures, read_figures
from brokerless.log.directory import PartitionPath
from brokerless.progress import ignore

if TYPE_CHECKING:
    import altair


@dataclass(frozen=True)
class Plots:
    """Charts of some partitions, as `Vega-Altair <https://altair-viz.github.io>`_ charts: a notebook shows them, and
    ``save("chart.svg")`` writes them to a file.

    They are made from batch headers, which the first chart reads. Damaged places are skipped. Raises
    :class:`UsageError` if the extra ``brokerless[report]`` is not installed.
    """

    partitions: Sequence[PartitionPath]

    def __repr__(self) -> str:
        return f"Plots(partitions={len(self.partitions)})"

    @cached_property
    def figures(self) -> Figures:
        """The tables that the charts are made from: ``partitions``, ``segments``, ``throughput``, ``batchSizes``,
        ``compression`` and ``producers``."""
        return read_figures(self.partitions, on_damage=ignore)

    def sizes(self) -> altair.LayerChart:
        """Partitions by size, as a treemap; colours are topics."""
        return charts.sizes(self.figures)

    def timeline(self) -> altair.LayerChart:
        """Segments by their timestamps, a line for each partition; colours are codecs, red marks missing offsets."""
        return charts.timeline(self.figures)

    def throughput(self) -> altair.Chart:
        """Records of each topic by hour, or by as many hours as fit."""
        return charts.throughput(self.figures)

    def batch_sizes(self) -> altair.Chart:
        """Number of batches by size."""
        return charts.batch_sizes(self.figures)

    def compression(self) -> altair.Chart:
        """Bytes of each topic by codec."""
        return charts.compression(self.figures)
