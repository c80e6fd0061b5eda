"""Varints in plain Python, where there are few of them; kernels read and write those of records (``varint.py``).

Seven bits a byte, the lowest first; the highest bit says that more follow. ZigZag makes small numbers of small negative
ones. Kafka, Avro and Protobuf write the same.
"""

from __future__ import annotations


def encode_unsigned(number: int) -> bytes:
    """Return the unsigned varint of a number, 0 or more."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode_zigzag(number: int) -> bytes:
    """A ZigZag varint, or varlong, of any number."""
    return encode_unsigned(number << 1 if number >= 0 else (~number << 1) | 1)


def decode_unsigned(data: bytes, at: int, end: int, most: int) -> tuple[int, int] | None:
    """Return the number at ``at``, and where it ends; None where it does not before ``end``, or has more than ``most``
    bytes."""
    number = 0
    for place in range(min(end - at, most)):
        byte = data[at + place]
        number |= (byte & 127) << 7 * place
        if byte < 128:
            return number, at + place + 1
    return None


def undo_zigzag(number: int) -> int:
    return (number >> 1) ^ -(number & 1)
