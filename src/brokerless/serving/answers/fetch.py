"""Fetch (4 to 18): the batches of partitions, as ranges of files.

- Whole batches, unchanged: those of v0 and v1 too. The first of a response comes however large it is (KIP-74).
- Where there are fewer than ``minBytes``, the answer waits for ``maxWaitMs`` (a minute at most), as a broker may be
  writing.
- Sessions (KIP-227) are declined: each answer has session 0 and all partitions.
- The high watermark is the log's end. read_committed ends at the last stable offset; aborted transactions are those
  that overlap what is returned. Of a log of more than 1 GiB, the last stable offset is -1 until a consumer of
  read_committed came.
- A damaged batch is CORRUPT_MESSAGE where it would come first (see ``batch_finder``).

Left out: replicas that follow (a fetch of one is that of a consumer), preferred read replicas, snapshots.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace

from brokerless.serving.answers.leader_epochs import epoch_error
from brokerless.serving.context import IS_LARGE, NOT_READ, SHARE, Request, Serving
from brokerless.serving.protocol.errors import Error
from brokerless.serving.protocol.writer import in_memory
from brokerless.serving.source.batch_finder import Want
from brokerless.serving.source.partition import Offsets, ServedPartition
from brokerless.serving.source.topics import ServedTopic
from brokerless.values import Row

MOST_BYTES = 55 << 20
"""Bytes of batches in one response, as ``fetch.max.bytes`` of a broker."""
MOST_WAIT_S = 60.0
"""How long an answer waits at most, of which ``maxWaitMs`` may ask for 24 days; a client asks again."""
MOST_WAIT_OF_LARGE_S = 1.0
"""The same of a request with thousands of partitions, which takes memory meanwhile."""
MOST_INLINE = 1 << 20
"""Bytes of local batches in one response that are in memory; the rest is sent from the files."""
WAIT_S = 0.5
"""How often waiting requests see whether a log has grown."""
_SINCE_TOPIC_IDS, _SINCE_ENDPOINTS = 13, 16


@dataclass(slots=True)
class _Fetch:
    """One try to answer a Fetch request."""

    serving: Serving
    request: Request
    left: int
    """Bytes that may still be added to the answer."""
    size: int = 0
    """Bytes of batches in the answer."""
    in_memory: int = 0
    """How many of these bytes are not sent from files."""
    is_final: bool = False
    """Whether there is an error, for which nobody waits."""
    fenced: bool = False
    rows: list[Row] = field(default_factory=list[Row])

    @property
    def is_committed(self) -> bool:
        return self.request.body["isolationLevel"] == 1

    def answer(self) -> Row:
        for topic in self.request.body["topics"]:
            partitions = [self._partition(topic, each) for each in topic["partitions"]]
            name = {key: topic[key] for key in ("topic", "topicId") if key in topic}
            self.rows.append({**name, "partitions": partitions})
        serving = self.serving
        node = {"nodeId": serving.node_id, "host": serving.host, "port": serving.port, "rack": None}
        return {"responses": self.rows, "nodeEndpoints": [node] if self.fenced else []}

    def _topic(self, wanted: Row) -> ServedTopic | None:
        topics = self.serving.topics
        if self.request.version >= _SINCE_TOPIC_IDS:
            return topics.by_id.get(wanted["topicId"])
        return topics.by_name.get(wanted["topic"])

    def _partition(self, topic: Row, wanted: Row) -> Row:
        number, served = wanted["partition"], self._topic(topic)
        if served is None:
            is_by_id = self.request.version >= _SINCE_TOPIC_IDS
            return self._unknown(number, Error.UNKNOWN_TOPIC_ID if is_by_id else Error.UNKNOWN_TOPIC_OR_PARTITION)
        partition = served.partitions.get(number)
        if partition is None:
            is_there = 0 <= number < served.count
            if is_there:
                return self._error(number, Error.NOT_LEADER_OR_FOLLOWER)
            return self._unknown(number, Error.UNKNOWN_TOPIC_OR_PARTITION)
        error = epoch_error(partition, wanted.get("currentLeaderEpoch", -1))
        if error is not None:
            return self._epoch_error(partition, error)
        try:
            return self._batches(partition, wanted)
        except NOT_READ as reason:
            return self._error(number, self.serving.not_read(partition.paths.path, reason))

    def _batches(self, partition: ServedPartition, wanted: Row) -> Row:
        offset, number = wanted["fetchOffset"], wanted["partition"]
        offsets = partition.offsets(needs_stable=self.is_committed)
        fetched_epoch = wanted.get("lastFetchedEpoch", -1)
        if fetched_epoch != -1:
            epoch, end = partition.end_of_epoch(fetched_epoch)
            if epoch == -1:
                return self._error(number, Error.OFFSET_OUT_OF_RANGE)
            if epoch < fetched_epoch or end < offset:
                self.is_final = True
                diverging = {"epoch": epoch, "endOffset": end}
                return self._row(number, offsets) | {"divergingEpoch": diverging, "records": []}
        if not offsets.start <= offset <= max(offsets.end, offsets.reach):
            return self._error(number, Error.OFFSET_OUT_OF_RANGE)
        if offset > offsets.end:  # who has read what is damaged now
            offsets = replace(offsets, end=offset)
        limit = offsets.end if not self.is_committed or offsets.stable is None else offsets.stable
        row = self._row(number, offsets)
        if offset >= limit:
            return row
        most = max(0, min(wanted["partitionMaxBytes"], self.left))
        inline = self.in_memory < MOST_INLINE
        want = Want(offset, limit, most, at_least_one=not self.size, inline=inline)
        start, end = offset, partition.unmarked_end(offset) if self.is_committed else None
        if end is None or end >= limit:
            found = partition.find(want)
        else:  # in one answer with what follows, a consumer would pass over that as well
            found = partition.find(replace(want, limit=end))
            if not found.size and not found.is_damaged:
                found, start = partition.find(want), end
        if found.is_damaged:
            self.is_final = True
            return row | {"errorCode": Error.CORRUPT_MESSAGE}
        self.size += found.size
        self.left -= found.used
        self.in_memory += in_memory(found.pieces)
        row["records"] = list(found.pieces)
        if self.is_committed and found.next_offset is not None:
            ended = partition.aborted(start, found.next_offset)
            row["abortedTransactions"] = [{"producerId": each, "firstOffset": first} for each, first in ended]
        return row

    def _row(self, number: int, offsets: Offsets) -> Row:
        return {
            "partitionIndex": number,
            "highWatermark": offsets.end,
            "lastStableOffset": -1 if offsets.stable is None else offsets.stable,
            "logStartOffset": offsets.start,
            "abortedTransactions": [] if self.is_committed else None,
            "records": [],
        }

    def _unknown(self, number: int, error: Error) -> Row:
        self.is_final = True
        return {"partitionIndex": number, "errorCode": error, "highWatermark": -1, "records": []}

    def _error(self, number: int, error: Error) -> Row:
        return self._unknown(number, error) | {"abortedTransactions": None}

    def _epoch_error(self, partition: ServedPartition, error: Error) -> Row:
        row = self._error(partition.number, error)
        if error == Error.FENCED_LEADER_EPOCH and self.request.version >= _SINCE_ENDPOINTS:
            self.fenced = True
            leader = {"leaderId": self.serving.node_id, "leaderEpoch": partition.announced_epoch()}
            row["currentLeader"] = leader
        return row


async def answer_fetch(serving: Serving, request: Request) -> Row:
    """Return batches, at once or when there are enough of them."""
    await serving.loaded()
    body = request.body
    if body.get("sessionEpoch", -1) > 0:
        return {"errorCode": Error.FETCH_SESSION_ID_NOT_FOUND}
    loop = asyncio.get_running_loop()
    until = loop.time() + min(body["maxWaitMs"] / 1000, MOST_WAIT_OF_LARGE_S if IS_LARGE.get() else MOST_WAIT_S)
    share = SHARE.get()
    while True:
        fetch = _Fetch(serving, request, min(body["maxBytes"], MOST_BYTES))
        answer = await serving.built(fetch.answer, size=lambda _, of=fetch: of.in_memory)
        left = until - loop.time()
        if fetch.is_final or fetch.size >= body["minBytes"] or left <= 0 or not body["topics"]:
            return answer
        del answer
        if share is not None:
            share.give()
        await asyncio.sleep(min(left, WAIT_S))
