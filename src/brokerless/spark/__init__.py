"""The public functions for Spark jobs; the source and the sink are found by ``format("brokerless")``."""

from __future__ import annotations

from brokerless.spark.row_order import arrange

__all__ = ["arrange"]
