"""The public interface for programs that write logs. :mod:`brokerless` itself imports none of it before it is used.

Records -> batches: :class:`BatchBuilder` one by one; :func:`columns_of`, :func:`cut_batches`, :func:`build_headers` and
:class:`Encoder` many at once. Batches -> a log: :class:`PartitionOutput` for a new partition as a whole,
:func:`open_log` for one that goes on, with :func:`append_as_leader` for what producers send. Tables -> partitions:
:func:`load`.
"""

from __future__ import annotations

from brokerless.api.loading import PartitionOutput, load
from brokerless.errors import RefusedError, UnwritableError
from brokerless.format.append.leader import append
from brokerless.format.append.types import AppendConfig, AppendResult, Refusal
from brokerless.format.control import build_transaction_marker
from brokerless.format.convert import down_convert
from brokerless.format.write.builder import BatchAttributes, BatchBuilder
from brokerless.format.write.compression_ratio import CompressionRatioEstimator
from brokerless.format.write.encoder import Encoder, build_headers, cut_batches
from brokerless.log.commit.log_opener import open_log
from brokerless.log.config import LogConfig
from brokerless.log.producer.checks import Duplicate
from brokerless.log.write.leader_append import append_as_leader
from brokerless.log.write.log_writer import LogWriter
from brokerless.tables.record_batches import columns_of

__all__ = [
    "AppendConfig",
    "AppendResult",
    "BatchAttributes",
    "BatchBuilder",
    "CompressionRatioEstimator",
    "Duplicate",
    "Encoder",
    "LogConfig",
    "LogWriter",
    "PartitionOutput",
    "Refusal",
    "RefusedError",
    "UnwritableError",
    "append",
    "append_as_leader",
    "build_headers",
    "build_transaction_marker",
    "columns_of",
    "cut_batches",
    "down_convert",
    "load",
    "open_log",
]
