"""The stream reader for Spark 4.2 and newer, where Spark sets the limit of each trigger."""

from __future__ import annotations

import math
import time
from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from brokerless.kafka_names import TopicPartition
from brokerless.spark.columns import SelectedColumns
from brokerless.spark.options import Options
from brokerless.spark.stream.positions import AsJson, at_most, count, from_json, identity_from_json, to_json
from brokerless.spark.stream.reader import StreamReader


class LimitedReader(StreamReader, SupportsTriggerAvailableNow):
    """Gives what Spark asks for: all that is there, a part of it, or what was there when the query started."""

    def __init__(self, options: Options, columns: SelectedColumns) -> None:
        super().__init__(options, columns)
        self._there_at_start: dict[TopicPartition, int] | None = None
        """Of a query with Trigger.AvailableNow."""
        self._last: dict[TopicPartition, int] | None = None
        """Where such a query ends."""
        self._latest: AsJson | None = None
        self._triggered = -math.inf

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._there_at_start, _ = self.tracker.ends({}, committed=False)
        self._last = None

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        if self.options.most_offsets is not None:
            return ReadMaxRows(self.options.most_offsets)
        if self.options.least_offsets is not None:
            return ReadMinRows(self.options.least_offsets)
        return ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> AsJson:  # noqa: N802
        position, known = from_json(start), identity_from_json(start)
        ends, begins = self.tracker.ends(position, known=known)
        self._latest = to_json(ends)
        if self._there_at_start is not None:
            ends = self._available_now(begins, ends, self._there_at_start)
        if not isinstance(limit, ReadAllAvailable):
            if self._there_at_start is None and self._is_too_early(count(begins, ends)):
                return to_json(position, known)
            if isinstance(limit, ReadMaxRows):
                ends = at_most(limit.max_rows, begins, ends)
        return to_json(ends, self.tracker.identity(ends, position, known))

    def reportLatestOffset(self) -> AsJson | None:  # noqa: N802
        return self._latest

    def _available_now(
        self, position: dict[TopicPartition, int], ends: dict[TopicPartition, int], there: dict[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Never further than what was there when the query started, and was stable when it first looked."""
        if self._last is None:
            self._last = {each: min(offset, there[each]) for each, offset in ends.items() if each in there}
        last = {each: max(offset, position.get(each, offset)) for each, offset in self._last.items()}
        return {**position, **last}

    def _is_too_early(self, there: int) -> bool:
        least, now = self.options.least_offsets, time.monotonic() * 1000
        if least is not None and there < least and now - self._triggered < self.options.longest_delay:
            return True
        self._triggered = now
        return False
