"""Chooses the partition of a record by its key, as Kafka's producers do.

Sources: ``org.apache.kafka.common.utils.Utils.murmur2`` and ``toPositive``,
``org.apache.kafka.clients.producer.internals.BuiltInPartitioner`` (KIP-480, KIP-794), 4.1.1.
"""

# Inside kernels, numbers are Numba's.
# pyright: basic, reportCallIssue=false, reportArgumentType=false

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import Column
from brokerless.format.kernel import inlined, kernel

_SEED = np.uint32(0x9747B28C)
_M = np.uint32(0x5BD1E995)
_R = np.uint32(24)


@inlined
def _murmur2(data, start, length):
    """MurmurHash2 of ``length`` bytes as uint32, with Kafka's seed."""
    hashed = _SEED ^ np.uint32(length)
    at = np.uint64(start)
    for _ in range(length >> 2):
        word = np.uint32(data[at])
        word |= np.uint32(data[at + np.uint64(1)]) << np.uint32(8)
        word |= np.uint32(data[at + np.uint64(2)]) << np.uint32(16)
        word |= np.uint32(data[at + np.uint64(3)]) << np.uint32(24)
        word = np.uint32(word * _M)
        word ^= word >> _R
        hashed = np.uint32(hashed * _M) ^ np.uint32(word * _M)
        at += np.uint64(4)
    rest = length & 3
    if rest == 3:
        hashed ^= np.uint32(data[at + np.uint64(2)]) << np.uint32(16)
    if rest >= 2:
        hashed ^= np.uint32(data[at + np.uint64(1)]) << np.uint32(8)
    if rest >= 1:
        hashed = np.uint32((hashed ^ np.uint32(data[at])) * _M)
    hashed ^= hashed >> np.uint32(13)
    hashed = np.uint32(hashed * _M)
    return hashed ^ (hashed >> np.uint32(15))


@kernel("void(Array(uint8, 1, 'C', readonly=True), Array(int32, 1, 'C', readonly=True), int32[::1])")
def _hash_rows(data, ends, hashes):
    for row in range(len(hashes)):
        start = np.int64(ends[row])
        hashes[row] = np.int32(_murmur2(data, start, np.int64(ends[row + 1]) - start))


def murmur2(keys: Column) -> NDArray[np.int32]:
    """The hash of each row of a binary column, shape ``(len(keys),)``; null is hashed as no bytes."""
    hashes = np.empty(len(keys), np.int32)
    if len(keys):
        _hash_rows(arrow.data(keys), arrow.ends(keys), hashes)
    return hashes


def partition_for_key(keys: Column, partitions: int) -> NDArray[np.int32]:
    """The partition of each key of a binary column, from 0 to ``partitions`` - 1; -1 where the key is null: those
    records stick to one partition for a while (see :func:`sticky_partition`)."""
    chosen = (murmur2(keys) & np.int32(0x7FFFFFFF)) % np.int32(partitions)
    chosen[~arrow.is_valid(keys)] = -1
    return chosen


def sticky_partition(
    sizes: NDArray[np.int64], before: int, sticky_bytes: int, partitions: int
) -> tuple[NDArray[np.int32], int]:
    """The partitions of records without a key, and ``before`` for those after them. The next partition comes after
    each ``sticky_bytes`` bytes (KIP-794: the producer's ``batch.size``), and never is one left out. Kafka's choice is
    random; this one goes around, so that a job gives the same each time.

    ``sizes``: bytes of each record; ``before``: what those before them count.
    """
    most = max(sticky_bytes, 1)
    ends = before + np.cumsum(np.minimum(sizes, most))
    starts = np.concatenate([[before], ends[:-1]])
    return (starts // most % partitions).astype(np.int32), int(ends[-1]) if len(ends) else before
