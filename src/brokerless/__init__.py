"""brokerless reads Apache Kafka's log files without a broker.

>>> import brokerless
>>> log = brokerless.open("/var/lib/kafka")
>>> for batch in log.partition("orders", 0).records(["offset", "timestamp", "value"]):
...     print(batch.num_rows)
"""

from __future__ import annotations

from brokerless.errors import BrokerlessError, DamageError, Finding, UnreadableError, UsageError
from brokerless.logs import Log, Partition, open
from brokerless.record import Record, record_views

__all__ = [
    "BrokerlessError",
    "DamageError",
    "Finding",
    "Log",
    "Partition",
    "Record",
    "UnreadableError",
    "UsageError",
    "open",
    "record_views",
]
__version__ = "0.1.0"
