"""What a topic's view reads."""

from __future__ import annotations

from brokerless.dataset.table_dataset import TableDataset
from brokerless.dataset.tables import Tables


def topic_dataset(tables: Tables, topic: str) -> TableDataset:
    """The records of one topic."""
    return tables.dataset("records", topic)
