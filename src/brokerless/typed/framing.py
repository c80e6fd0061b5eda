"""Where keys and values name their schema: in their first bytes, or in a header. Told apart by the bytes alone.

Confluent: a zero byte, then the id as int32 (``AbstractKafkaSchemaSerDe``); or in the header ``__key_schema_id`` or
``__value_schema_id`` the same, or a one byte and a GUID of 16 bytes (``HeaderSchemaIdSerializer``, 8.0), and then no
bytes of it in the value. Apicurio: a zero byte, then the id as int64, whose first four bytes are zero for small ids, as
no id of Confluent's is; or headers ``apicurio.value.globalId`` and ``contentId``; ``apicurio.value.encoding`` says
where Avro is JSON. AWS Glue: a three byte, a byte for the compression (0 none, 5 zlib), and the UUID of the schema's
version.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless import arrow
from brokerless.arrow import Column

CONFLUENT, APICURIO, GLUE, GLUE_ZLIB = "confluent", "apicurio", "glue", "glue-zlib"
APICURIO_JSON = "apicurio-json"
NULL, UNFRAMED = -2, -1


@dataclass(frozen=True, slots=True)
class Frame:
    """The schema that a record names."""

    framing: str
    id: int | str
    in_header: bool = False
    """Whether the id is in a header."""
    message: bytes = b""
    """Protobuf's message indexes, where they are in the header as well."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of rows."""

    known: list[Frame]
    codes: NDArray[np.int32]
    """Each row's frame, as its place in ``known``, or :data:`NULL` or :data:`UNFRAMED`."""
    data: NDArray[np.uint8]
    """Each row has a payload in it, from ``starts`` to ``ends``."""
    starts: NDArray[np.int64]
    ends: NDArray[np.int64]


def registry_of(framing: str) -> str:
    """Return the registry whose framing it is, whatever form its payloads have."""
    return framing.removesuffix("-zlib").removesuffix("-json")


def find_frames(column: Column, side: str, headers: Column | None = None) -> Frames:
    """Return the frames of a column of bytes; ``side`` is ``key`` or ``value``, ``headers`` those of the same
    records."""
    rows = len(column)
    bounds = arrow.ends(column).astype(np.int64) if rows else np.zeros(1, np.int64)
    starts, ends, data = bounds[:-1].copy(), bounds[1:].copy(), arrow.data(column)
    codes = np.full(rows, UNFRAMED, np.int32)
    known: list[Frame] = []
    lengths = ends - starts
    if rows and len(data):
        last = len(data) - 1
        first = data[np.minimum(starts, last)]
        zero = np.flatnonzero((first == 0) & (lengths >= 5))
        if len(zero):
            numbers = _big_endian(data, starts[zero] + 1, 4)
            narrow = zero[numbers != 0]  # no registry gives the id 0: a whole number of 8 bytes, say
            _add(known, codes, narrow, ids=numbers[numbers != 0], name=CONFLUENT)
            starts[narrow] += 5
            wide = zero[(numbers == 0) & (lengths[zero] >= 9)]
            numbers = _big_endian(data, starts[wide] + 1, 8)
            wide, numbers = wide[numbers != 0], numbers[numbers != 0]
            _add(known, codes, wide, ids=numbers, name=APICURIO)
            starts[wide] += 9
        three = np.flatnonzero((first == 3) & (lengths >= 18))
        if len(three):
            compression = data[starts[three] + 1]
            for byte, name in ((0, GLUE), (5, GLUE_ZLIB)):
                chosen = three[compression == byte]
                uuids = data[starts[chosen][:, None] + np.arange(2, 18)]
                distinct, inverse = np.unique(uuids, axis=0, return_inverse=True)
                codes[chosen] = len(known) + inverse.ravel()
                known += [Frame(name, str(UUID(bytes=each.tobytes()))) for each in distinct]
                starts[chosen] += 18
    if headers is not None and rows:
        _from_headers(known, codes, starts, bounds=bounds, side=side, headers=headers)
    if column.null_count:
        codes[~arrow.is_valid(column)] = NULL
    return Frames(known, codes, data, starts=starts, ends=ends)


def _big_endian(data: NDArray[np.uint8], at: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    number = np.zeros(len(at), np.int64)
    for byte in range(width):
        number = number << 8 | data[at + byte]
    return number


def _add(
    known: list[Frame], codes: NDArray[np.int32], rows: NDArray[np.int64], ids: NDArray[np.int64], name: str
) -> None:
    distinct, inverse = np.unique(ids, return_inverse=True)
    codes[rows] = len(known) + inverse.ravel()
    known += [Frame(name, int(each)) for each in distinct]


def id_headers(side: str) -> dict[str, str]:
    """Return the names of the headers that name the schema of a key or a value, with the framing of each."""
    return {
        f"__{side}_schema_id": CONFLUENT,
        f"apicurio.{side}.globalId": APICURIO,
        f"apicurio.{side}.contentId": APICURIO,
    }


def _from_headers(
    known: list[Frame], codes: NDArray[np.int32], starts: NDArray[np.int64], bounds: NDArray[np.int64], side: str,
    headers: Column,
) -> None:  # fmt: skip
    """Ids in headers count before what the first bytes look like, as in Confluent's ``DualSchemaIdDeserializer``."""
    names = {name.encode(): framing for name, framing in id_headers(side).items()}
    of_rows = arrow.ends(headers)
    keys, values = headers.values.field(0), headers.values.field(1)
    first, last = int(of_rows[0]), int(of_rows[-1])
    encoding, in_json = f"apicurio.{side}.encoding".encode(), set[int]()
    if first == last or not any(name in arrow.data(keys).tobytes() for name in (*names, encoding)):
        return
    places: dict[Frame, int] = {}

    def number_of(frame: Frame) -> int:
        if frame not in places:
            places[frame] = len(known)
            known.append(frame)
        return places[frame]

    row = 0
    for at in range(first, last):
        while of_rows[row + 1] <= at:
            row += 1
        name = keys[at].as_buffer().to_pybytes()
        if name == encoding and values[at].as_py() == b"JSON":
            in_json.add(row)
        frame = _header_frame(names.get(name), values[at].as_py())
        if frame is not None:
            codes[row], starts[row] = number_of(frame), bounds[row]
    for row in sorted(in_json):
        if codes[row] >= 0 and known[codes[row]].framing == APICURIO:
            codes[row] = number_of(replace(known[codes[row]], framing=APICURIO_JSON))


def _header_frame(framing: str | None, value: bytes | None) -> Frame | None:
    if framing is None or value is None:
        return None
    if framing == APICURIO:
        return Frame(APICURIO, int.from_bytes(value, "big"), True) if len(value) == 8 else None
    if value[:1] == b"\0" and len(value) >= 5:
        return Frame(CONFLUENT, int.from_bytes(value[1:5], "big"), True, value[5:])
    if value[:1] == b"\1" and len(value) >= 17:
        return Frame(CONFLUENT, str(UUID(bytes=value[1:17])), True, value[17:])
    return None


def payloads(frames: Frames, rows: NDArray[np.int64]) -> list[bytes]:
    """Return the bytes of some rows after their frames."""
    data = frames.data
    bounds = zip(frames.starts[rows].tolist(), frames.ends[rows].tolist(), strict=True)
    return [data[start:end].tobytes() for start, end in bounds]


def empty(type_: pa.DataType, rows: int) -> Column:
    """Return a column of nulls."""
    return pa.nulls(rows, type_)
