"""Checks a producer's batches as a leader does before it appends them: epochs, sequences, transactions, duplicates.

Whether a transaction was begun at its coordinator (KIP-890) cannot be asked here, and is taken for granted.

Sources: ``UnifiedLog.analyzeAndValidateProducerState``, ``ProducerAppendInfo`` (4.1.1); KIP-98, KIP-360.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from brokerless.bounds import MAX_INT32
from brokerless.format import layouts
from brokerless.format.read.batch_headers import Batches
from brokerless.log.producer.markers import Marker, NoMarker
from brokerless.log.producer.state import (
    BatchMetadata,
    Producer,
    ProducerRefusal,
    ProducerState,
    batch_metadata,
    control_markers,
    outside_of_transaction,
)

Origin = Literal["client", "coordinator"]
"""Who appends: a producer, whose sequences must follow each other; or a transaction or group coordinator, which has no
sequences and writes markers."""


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A batch that was appended before: nothing is appended, and the producer gets the offsets that it got then."""

    row: int
    first_offset: int
    last_offset: int
    timestamp: int
    """The batch's largest one, in ms."""


@dataclass(slots=True)
class _Append:
    """A producer before this append, and with what was appended so far."""

    before: Producer
    updated: Producer


def check_append(
    state: ProducerState, batches: Batches, buffer: NDArray[np.uint8], origin: Origin = "client"
) -> ProducerRefusal | Duplicate | None:
    """Return whether a leader would append these batches, which have their final offsets; None if so. Changes nothing:
    who then appends them calls ``state.update``.

    ``ProducerRefusal.exception`` is one of OutOfOrderSequenceException, InvalidProducerEpochException,
    InvalidTxnStateException, TransactionCoordinatorFencedException, or what a broken marker gives.
    """
    rows = np.flatnonzero(batches.producer_id > layouts.NO_PRODUCER_ID)
    chosen = batches if len(rows) == len(batches) else batches.take(rows)
    markers = iter(control_markers(chosen, buffer))
    appends: dict[int, _Append] = {}
    columns = zip(
        rows.tolist(), chosen.producer_id.tolist(), chosen.producer_epoch.tolist(), chosen.entry_offset.tolist(),
        chosen.base_sequence.tolist(), chosen.is_transactional.tolist(), chosen.is_control.tolist(),
        batch_metadata(chosen), strict=True,
    )  # fmt: skip
    for row, producer_id, epoch, offset, sequence, is_transactional, is_control, batch in columns:
        known = state.producers.get(producer_id)
        if origin == "client" and known is not None and (earlier := _earlier(known, epoch, sequence, batch)):
            return Duplicate(row, earlier.first_offset, earlier.last_offset, earlier.timestamp)
        append = appends.get(producer_id)
        if append is None:
            before = known or Producer()
            updated = Producer(before.epoch, before.coordinator_epoch, before.timestamp, before.txn_first_offset)
            append = appends[producer_id] = _Append(before, updated)
        updated = append.updated
        if epoch < updated.epoch:
            return _fenced(row, offset, epoch, updated.epoch)
        marker = next(markers) if is_control else None
        if isinstance(marker, NoMarker):
            return ProducerRefusal(marker.exception, row, offset, marker.message)
        if is_control and marker is None:
            continue
        if marker is not None:
            if marker.coordinator_epoch < updated.coordinator_epoch:
                return _coordinator_fenced(row, offset, marker, updated)
            updated.end_transaction(epoch, marker)
            continue
        if origin == "client" and (refused := _check_sequence(append, epoch, sequence, row=row, offset=offset)):
            return refused
        if updated.txn_first_offset >= 0 and not is_transactional:
            return outside_of_transaction(row, offset, updated)
        updated.add(epoch, batch)
        if is_transactional and updated.txn_first_offset < 0:
            updated.txn_first_offset = offset
    return None


def _earlier(known: Producer, epoch: int, sequence: int, batch: BatchMetadata) -> BatchMetadata | None:
    """One of the last batches with the same sequences."""
    if epoch != known.epoch:
        return None
    wanted = (sequence, batch.last_sequence)
    return next((each for each in known.batches if (each.first_sequence, each.last_sequence) == wanted), None)


def _check_sequence(append: _Append, epoch: int, sequence: int, row: int, offset: int) -> ProducerRefusal | None:
    before, updated = append.before, append.updated
    if epoch != updated.epoch:
        if sequence == 0 or updated.epoch == layouts.NO_PRODUCER_EPOCH:
            return None
        message = "the first sequence of a producer's new epoch is not 0"
        return ProducerRefusal(
            "OutOfOrderSequenceException", row, offset, message=message, expected="0", found=str(sequence)
        )
    if updated.batches:
        last = updated.last_sequence
    elif epoch == before.epoch:
        last = before.last_sequence
    else:
        last = layouts.NO_SEQUENCE
    # Of a producer that is not known, as all its records may have been deleted, any sequence is taken.
    if before.epoch == layouts.NO_PRODUCER_EPOCH or sequence == last + 1 or (sequence == 0 and last == MAX_INT32):
        return None
    message = "the sequence does not follow the producer's last one"
    expected = str(0 if last == MAX_INT32 else last + 1)
    return ProducerRefusal(
        "OutOfOrderSequenceException", row, offset, message=message, expected=expected, found=str(sequence)
    )


def _fenced(row: int, offset: int, epoch: int, last: int) -> ProducerRefusal:
    message = "a batch of an epoch before the last one of its producer"
    return ProducerRefusal(
        "InvalidProducerEpochException",
        row,
        offset,
        message=message,
        expected=f"epoch {last} or more",
        found=f"epoch {epoch}",
    )


def _coordinator_fenced(row: int, offset: int, marker: Marker, producer: Producer) -> ProducerRefusal:
    message = "a marker of a transaction coordinator that was replaced"
    expected, found = f"epoch {producer.coordinator_epoch} or more", f"epoch {marker.coordinator_epoch}"
    return ProducerRefusal(
        "TransactionCoordinatorFencedException", row, offset, message=message, expected=expected, found=found
    )
