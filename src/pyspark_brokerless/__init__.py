"""Where Spark finds ``format("brokerless")``: it looks into modules named ``pyspark_*`` for ``DefaultSource``."""

from __future__ import annotations

from brokerless.spark.source import BrokerlessSource as DefaultSource

__all__ = ["DefaultSource"]
