"""Decoders of payloads of one schema or format: row by row into Python's values, where no kernel does it."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from brokerless.arrow import Column
from brokerless.typed.framing import Frame
from brokerless.typed.merge import UnfitError, conform
from brokerless.typed.plain import Parse
from brokerless.typed.reasons import Reason, Reasons


class PayloadDecoder(Protocol):
    """Decodes payloads of one schema."""

    def __call__(
        self, frame: Frame, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[Column, Reasons]: ...


def rows_decoder(parse: Parse, type_: pa.DataType) -> PayloadDecoder:
    """Return a decoder that parses row by row into Python's values."""

    def decode(
        frame: Frame, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[Column, Reasons]:
        values: list[Any] = []
        reasons: Reasons = {}
        for row, (start, end) in enumerate(zip(starts.tolist(), ends.tolist(), strict=True)):
            left_out: list[UnfitError] = []
            try:
                values.append(conform(parse(data[start:end].tobytes()), type_, left_out))
                if left_out:
                    reasons[row] = left_out[0].reason
            except (ValueError, ArithmeticError, RecursionError, LookupError, TypeError) as error:
                values.append(None)
                reasons[row] = reason_of(error)
        return column_of_rows(values, type_, reasons), reasons

    return decode


def text_decoder(type_: pa.DataType, by_rows: PayloadDecoder) -> PayloadDecoder:
    """Return a decoder of text or bytes that takes a batch's payloads unchanged, without a value of Python for each;
    where one is no UTF-8, or something is between them, it is ``by_rows``."""

    def decode(
        frame: Frame, data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64]
    ) -> tuple[Column, Reasons]:
        if len(starts) and bool((starts[1:] == ends[:-1]).all()):
            bounds = np.append(starts, ends[-1]).astype(np.int32)
            buffers = [None, *(pa.py_buffer(memoryview(cast(Any, each))) for each in (bounds, data))]
            with suppress(pa.ArrowInvalid):
                return pa.Array.from_buffers(pa.binary(), len(starts), buffers).cast(type_), {}
        return by_rows(frame, data, starts, ends)

    return decode


def column_of_rows(values: list[Any], type_: pa.DataType, reasons: Reasons) -> Column:
    """Return a column; a value that Arrow refuses becomes null, with a reason."""
    try:
        return pa.array(values, type_)
    except (pa.ArrowException, ValueError, TypeError, OverflowError):
        pass
    for row, value in enumerate(values):
        try:
            pa.array([value], type_)
        except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
            values[row] = None
            reasons.setdefault(row, reason_of(error))
    return pa.array(values, type_)


def reason_of(error: Exception) -> Reason:
    """Return a line, which is the same for all values that one cause leaves undecoded, wherever in their bytes it
    is."""
    if isinstance(error, RecursionError):
        return Reason("nested too deeply")
    if isinstance(error, json.JSONDecodeError):
        return Reason(f"no JSON: {error.msg}")
    if isinstance(error, UnicodeDecodeError):
        return Reason(f"no UTF-8: {error.reason}")
    text = (str(error) or type(error).__name__).splitlines()[0]
    found = error.reason if isinstance(error, UnfitError) else Reason(text)
    return replace(found, text=text if len(text) <= 200 else f"{text[:200]}...")
