"""Fields of keys and values: bytes of a user's, or what Kafka writes into control records and its own topics."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from brokerless.explanation.builder import FieldBuilder, Said
from brokerless.explanation.internal_fields import take_internal_key, take_internal_value, take_message
from brokerless.format import control

_INT16, _INT32 = np.dtype(">i2"), np.dtype(">i4")


@dataclass(frozen=True, slots=True)
class ContentTypes:
    """The types by which keys and values are read."""

    is_control: bool = False
    topic: str | None = None
    """One of Kafka's own topics, or None."""

    def take_key(self, builder: FieldBuilder, length: int) -> bytes:
        """Takes a key and returns its bytes; there are so many."""
        if self.is_control:
            return _take(builder, "key", length, _fill_control_key)
        if self.topic is not None:
            return _take(builder, "key", length, take_internal_key(self.topic))
        return builder.take_bytes("key", length)

    def take_value(self, builder: FieldBuilder, length: int, key: bytes | None) -> None:
        """Takes the value of the record with this key."""
        if self.is_control:
            _take(builder, "value", length, lambda inside: _fill_control_value(inside, key))
        elif self.topic is not None:
            _take(builder, "value", length, take_internal_value(self.topic, key))
        else:
            builder.take_bytes("value", length)


def _take(builder: FieldBuilder, name: str, length: int, fill: Callable[[FieldBuilder], None] | None) -> bytes:
    data = builder.data[builder.at : builder.at + length]
    if fill is None:
        return builder.take_bytes(name, length)
    builder.take_nested(name, length, fill)
    return data


def _fill_control_key(builder: FieldBuilder) -> None:
    builder.take_number("version", _INT16, lambda _: Said())
    builder.take_number("type", _INT16, lambda value: Said(control.TYPES.get(value, control.UNKNOWN)))
    builder.take_rest("Kafka's reader ignores it")


def _fill_control_value(builder: FieldBuilder, key: bytes | None) -> None:
    record = control.decode_control(key, None)
    if record is None:
        builder.take_rest("of a control record whose key has no type")
    elif record.type_id in (control.ABORT, control.COMMIT):
        builder.take_number("version", _INT16, lambda _: Said())
        builder.take_number("coordinatorEpoch", _INT32, lambda _: Said("of the transaction coordinator"))
        builder.take_rest("Kafka's reader ignores it")
    elif (message := control.MESSAGES.get(record.type_id)) is not None:
        take_message(builder, message, control.MESSAGE_VERSION)
        builder.take_rest("Kafka's reader ignores it")
    else:
        builder.take_rest("of an unknown type of control record")
