"""Kafka's own topics, decoded: committed offsets and groups, transactional ids, the cluster's metadata."""

from __future__ import annotations

from brokerless.internals.tables import history, state

__all__ = ["history", "state"]
