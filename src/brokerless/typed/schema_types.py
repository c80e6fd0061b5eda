"""The one Arrow type of several schemas, and the decoder of each of them into that type."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa

from brokerless.typed.merge import merge, merge_types, without_nulls
from brokerless.typed.payloads import PayloadDecoder
from brokerless.typed.registry import Schema, age
from brokerless.typed.topic_type import SideType, UsedSchema


def type_of_schemas(used: Sequence[UsedSchema]) -> tuple[pa.DataType, list[UsedSchema]]:
    """Return the type that holds all schemas; and those that could be understood, the others without their schema.

    The newest one comes first: its fields lead, its defaults and aliases count. Versions that no record uses widen the
    type only where that does not take the type of a used one away.
    """
    newest = newest_of(used)
    messages = _messages_of(used)
    known = sorted(
        (each for each in used if each.schema is not None), key=lambda each: (each.records == 0, -_age(each))
    )
    merged: pa.DataType = pa.null()
    kept: list[UsedSchema] = [each for each in used if each.schema is None]
    for each in known:
        assert each.schema is not None
        try:
            own = _type_of(each, each.schema, newest, messages)
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            kept.append(replace(each, schema=None, problem=_problem(each, error)) if each.records else each)
            continue
        wider = merge(merged, own)
        if not each.records and pa.types.is_nested(merged) and not pa.types.is_nested(wider):
            continue
        merged = wider
        kept.append(each)
    return (pa.binary() if pa.types.is_null(merged) else without_nulls(merged)), kept


def newest_of(used: Sequence[UsedSchema]) -> Schema | None:
    """Return the schema with the highest version, or else id, of those that are not deleted (if any)."""
    known = [each for each in used if each.schema is not None]
    best = max(known, key=_age, default=None)
    return None if best is None else best.schema


def _age(each: UsedSchema) -> int:
    assert each.schema is not None
    return age(each.schema)


def _messages_of(used: Sequence[UsedSchema]) -> set[str]:
    """The full names of the Protobuf messages that records are."""
    found: set[str] = set()
    for each in used:
        if each.schema is not None and each.messages:
            from brokerless.typed.protobuf.files import message_types

            with suppress(ValueError):
                types = message_types(each.schema)
                for indexes in each.messages:
                    with suppress(ValueError):  # indexes of no message, which are reported where they are decoded
                        found.add(types.descriptor(indexes).full_name)
    return found


def _type_of(used: UsedSchema, schema: Schema, newest: Schema | None, messages: set[str]) -> pa.DataType:
    if schema.type == "AVRO":
        from brokerless.typed.avro.schema import avro_arrow_type

        return avro_arrow_type(schema, newest)
    if schema.type == "PROTOBUF":
        from brokerless.typed.protobuf.decoder import protobuf_arrow_type

        found: list[pa.DataType] = []
        for each in used.messages or _likely_messages(schema, messages):
            with suppress(ValueError):
                found.append(protobuf_arrow_type(schema, each))
        return merge_types(found or [protobuf_arrow_type(schema)])
    from brokerless.typed.json.schema import json_arrow_type

    return json_arrow_type(schema)


def _likely_messages(schema: Schema, names: set[str]) -> list[tuple[int, ...]]:
    """Return those of ``names`` that a Protobuf schema which no record names has; all of its messages where it has none
    of them, as a subject does not name the message of its records."""
    from brokerless.typed.protobuf.files import message_types

    top = message_types(schema).top
    named = [number for number, each in enumerate(top) if each.full_name in names]
    return [(number,) for number in named or range(len(top))]


def decoder_of_schema(used: UsedSchema, side: SideType) -> PayloadDecoder | str:
    """Return the decoder of one schema's payloads into a side's type; or why there is none."""
    schema = used.schema
    assert schema is not None
    try:
        if schema.type == "AVRO":
            from brokerless.typed.avro.decoder import avro_decoder

            return avro_decoder(schema, newest_of(side.schemas), side.type)
        if schema.type == "PROTOBUF":
            from brokerless.typed.protobuf.decoder import protobuf_decoder

            return protobuf_decoder(schema, side.type, is_unsigned=side.has_unsigned_indexes)
        from brokerless.typed.json.schema import json_decoder

        return json_decoder(schema, side.type)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        return _problem(used, error)


def _problem(used: UsedSchema, error: Exception) -> str:
    text = (str(error) or type(error).__name__).splitlines()[0][:200]
    return f"schema {used.id} cannot be used: {text}"
