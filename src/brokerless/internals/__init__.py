"""Kafka's own topics decoded, and MirrorMaker's and Connect's: offsets, groups, transactional ids, metadata."""

from __future__ import annotations

from brokerless.internals.tables import history, state

__all__ = ["history", "state"]
