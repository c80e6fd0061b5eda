"""Fields of one entry of a log, whatever its format: a v2 batch, a message of v0 or v1, or a wrapper message."""

from __future__ import annotations

from dataclasses import dataclass, field

from brokerless.explanation.builder import FieldBudget, FieldBuilder, Said, build
from brokerless.explanation.contents import ContentTypes
from brokerless.explanation.field import Field, Inflated
from brokerless.explanation.meanings import codec_name, describe_entry, expected_codec, layout_of
from brokerless.explanation.messages import take_message
from brokerless.explanation.records import RecordRange, RecordsHeader, take_records
from brokerless.format import layouts
from brokerless.format.codecs.decompression import Inflater
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES


@dataclass(frozen=True, slots=True)
class ExplainSettings:
    """The parts of a batch that are explained."""

    records: RecordRange = field(default_factory=RecordRange)
    topic: str | None = None
    """The internal topic whose records are decoded; None for other topics."""
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    """Bytes that a payload may inflate to."""


def explain_entry(data: bytes, position: int, settings: ExplainSettings, budget: FieldBudget) -> tuple[Field, ...]:
    """Return the fields of the entry that ``data`` begins with; they make up all of ``data``, which is at ``position``.

    The first is a group (``batch``, ``message`` or ``wrapper``); another one follows where the sense ends.
    """

    def fill(builder: FieldBuilder) -> None:
        magic = _magic(data)
        if magic >= layouts.MAGIC_V2:
            with builder.group("batch"):
                _take_batch(builder, settings)
        else:
            take_message(builder, settings.topic, settings.records, Inflater(settings.max_batch_bytes))

    return build(data, position, fill, budget)


def _magic(data: bytes) -> int:
    """Return the magic byte; v2's where there are too few bytes for one."""
    at = layouts.MAGIC_POSITION
    return int.from_bytes(data[at : at + 1], "big", signed=True) if len(data) > at else layouts.MAGIC_V2


def _take_batch(builder: FieldBuilder, settings: ExplainSettings) -> None:
    data = builder.data
    values = builder.take_layout(layout_of(_magic(data)), describe_entry(data, builder.position))
    if values["size"] < layouts.BATCH_V2_SIZE - layouts.LOG_ENTRY_SIZE:
        builder.expect("a size that the batch's header fits into")
    if values["count"] < 0:
        builder.expect("a count of 0 or more records")
    if not builder.left and values["count"]:
        builder.expect(f"{values['count']} records")
    is_control = bool(values["attributes"] & layouts.CONTROL_BIT)
    contents = ContentTypes(is_control, settings.topic)
    header = RecordsHeader(
        values["count"], values["base_offset"], values["base_timestamp"], max_timestamp=values["max_timestamp"],
        is_append_time=bool(values["attributes"] & layouts.TIMESTAMP_TYPE_BIT), base_sequence=values["base_sequence"],
    )  # fmt: skip
    if not values["attributes"] & layouts.CODEC_MASK:
        take_records(builder, header, contents, settings.records)
    else:
        _take_payload(builder, values["attributes"], header, contents=contents, settings=settings)


def _take_payload(
    builder: FieldBuilder, attributes: int, header: RecordsHeader, contents: ContentTypes, settings: ExplainSettings
) -> None:
    codec, size = codec_name(attributes), builder.left
    inflater = Inflater(settings.max_batch_bytes)
    payload = memoryview(builder.data)[builder.at :]
    if not header.count:
        error = inflater.check_header(attributes & layouts.CODEC_MASK, layouts.MAGIC_V2, payload)
        expected = expected_codec(attributes, layouts.MAGIC_V2)
        if expected is None and error is not None:
            expected = f"a payload that decompresses; {error}"
        if size:
            note = "no records are declared, so nothing of this is read"
            builder.take("payload", size, None, Said(note, expected))
        elif expected is not None:
            builder.expect(expected)
        return
    start, end, error = inflater.inflate(attributes & layouts.CODEC_MASK, layouts.MAGIC_V2, payload)
    data = inflater.buffer[start:end].tobytes()

    def fill(inside: FieldBuilder) -> None:
        take_records(inside, header, contents, settings.records)

    inflated = Inflated(codec, len(data), build(data, 0, fill, builder.budget))
    if error is not None:
        expected = expected_codec(attributes, layouts.MAGIC_V2) or f"a payload that decompresses; {error}"
        builder.take("payload", size, None, Said(codec, expected), inflated)
        return
    builder.take("payload", size, None, Said(f"{codec}: {size} bytes inflate to {len(data)}"), inflated)
