"""A log with everything in it that a broker can be asked to serve, written by us, and what its readers should get."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from brokerless.format.control import build_transaction_marker
from brokerless.format.write.builder import BatchAttributes, BatchBuilder
from brokerless.format.write.encoder import Encoder
from tests.kafka.producers import CODECS, Consumed

START = 1_700_000_000_000
"""Ms: when the first record was written."""


@dataclass
class Written:
    """``pieces``: batches, to be appended one piece at a time. ``records`` are all that a consumer gets with
    read_uncommitted; ``aborted`` their offsets that read_committed leaves out. ``times``: offset and timestamp of all
    records, those of control batches as well."""

    pieces: list[NDArray[np.uint8]] = field(default_factory=list)
    records: list[Consumed] = field(default_factory=list)
    aborted: set[int] = field(default_factory=set)
    times: list[tuple[int, int]] = field(default_factory=list)
    end_offset: int = 0

    def offset_for(self, timestamp: int) -> int | None:
        """The first offset from that time on; a broker counts control records as well."""
        return next((offset for offset, time in self.times if time >= timestamp), None)

    @property
    def committed(self) -> list[Consumed]:
        return [record for record in self.records if record.offset not in self.aborted]


def everything(seed: int = 1, leader_epoch: int = 0, rounds: int = 40, start_offset: int = 0) -> Written:
    """All codecs, sizes from a few bytes to 10 KB, headers, both timestamp types, gaps in the offsets, times that go
    back, idempotent producers and transactions that interleave, committed and aborted; epochs that go up."""
    rng = random.Random(seed)
    log = Written(end_offset=start_offset)
    idempotent, *transactional = (seed * 1000 + number for number in range(4))
    sequences = dict.fromkeys([idempotent, *transactional], 0)
    clock = START

    def batch(producer_id: int = -1, is_transactional: bool = False, append_time: int | None = None) -> list[int]:
        nonlocal clock
        sequence = sequences.get(producer_id, -1)
        epoch = -1 if producer_id < 0 else 0
        facts = BatchAttributes(
            log.end_offset, append_time, producer_id, epoch, sequence, is_transactional, False, leader_epoch
        )
        builder = BatchBuilder(codec=rng.choice(CODECS), attributes=facts)
        offsets: list[int] = []
        for _ in range(rng.randrange(1, 30)):
            clock += rng.randrange(100)
            timestamp = clock - rng.choice([0, 0, 0, 5000])
            key = rng.choice([None, b"", f"key-{rng.randrange(50)}".encode()])
            value = rng.choice([None, b"", rng.randbytes(rng.randrange(400)), b"abc" * rng.randrange(600)])
            headers = [("trace", b"%d" % clock), ("leer", None)] if rng.random() < 0.3 else []
            gap = rng.choice([0, 0, 3]) if producer_id < 0 and offsets else 0
            offset = builder.append(timestamp, key, value, headers, log.end_offset + gap)
            when = timestamp if append_time is None else append_time
            log.records.append(Consumed(offset, when, key, value, tuple(headers)))
            log.times.append((offset, when))
            offsets.append(offset)
            log.end_offset = offset + 1
            if producer_id in sequences:
                sequences[producer_id] += 1
        put(builder.close())
        return offsets

    def put(data: bytes) -> None:
        log.pieces.append(np.frombuffer(data, np.uint8))

    def marker(producer_id: int, commit: bool) -> None:
        columns, header = build_transaction_marker(producer_id, 0, log.end_offset, clock, commit, 7, leader_epoch)
        put(Encoder().encode(columns, np.array([0, 1]), header).tobytes())
        log.times.append((log.end_offset, clock))
        log.end_offset += 1

    for _ in range(rounds):
        batch()
        batch(append_time=clock)
        batch(idempotent)
        log.end_offset += rng.choice([0, 0, 10])  # as compaction leaves it
        data = {producer_id: batch(producer_id, is_transactional=True) for producer_id in transactional}
        batch()
        data[transactional[1]] += batch(transactional[1], is_transactional=True)
        for producer_id in rng.sample(sorted(data), 3):
            commit = rng.random() < 0.6
            marker(producer_id, commit)
            if not commit:
                log.aborted.update(data[producer_id])
            clock += 1000
    return log
