"""What a program needs that writes logs, in one place. :mod:`brokerless` itself is for reading; it imports none of it.

Records -> batches: :class:`Builder` one by one; :func:`columns_of`, :func:`cut`, :func:`headers_of` and
:class:`Encoder` many at once. Batches -> a log: :class:`PartitionOutput` for a new partition as a whole,
:func:`open_log` for one that goes on, with :func:`append_as_leader` for what producers send. Tables -> partitions:
:func:`load`.
"""

from __future__ import annotations

from brokerless.errors import RefusedError, UnwritableError
from brokerless.format.append.leader import append
from brokerless.format.append.types import AppendConfig, Appended, Refusal
from brokerless.format.control import transaction_marker
from brokerless.format.convert import down_convert
from brokerless.format.write.builder import Builder, Facts
from brokerless.format.write.encoder import Encoder, Ratio, cut, headers_of
from brokerless.jobs.load.loader import load
from brokerless.log.commit.partition_writer import PartitionOutput
from brokerless.log.config import LogConfig
from brokerless.log.producer.checks import Duplicate
from brokerless.log.write.leader_append import append_as_leader
from brokerless.log.write.loader import open_log
from brokerless.log.write.log_writer import LogWriter
from brokerless.tables.record_batches import columns_of

__all__ = [
    "AppendConfig",
    "Appended",
    "Builder",
    "Duplicate",
    "Encoder",
    "Facts",
    "LogConfig",
    "LogWriter",
    "PartitionOutput",
    "Ratio",
    "Refusal",
    "RefusedError",
    "UnwritableError",
    "append",
    "append_as_leader",
    "columns_of",
    "cut",
    "down_convert",
    "headers_of",
    "load",
    "open_log",
    "transaction_marker",
]
