"""Decodes JSON payloads by their JSON Schema: validated, with the types that it gives.

Objects with ``properties`` are structs, those with ``additionalProperties`` alone are maps; what a schema leaves open
(``anyOf`` of several types, objects without properties) is text, as JSON. Fields that the schema does not name but
allows make a record whose bytes are kept: the type has no place for them. Whole numbers whose ``title`` is the name of
Connect's Timestamp, Date or Time are that, as Confluent's JsonSchemaConverter writes them (``JsonSchemaData``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc

from brokerless.arrow import Column, without_times
from brokerless.errors import missing_libraries
from brokerless.typed.framing import Frame
from brokerless.typed.json.column_rules import ColumnRule, NotByColumnsError, rule_of
from brokerless.typed.json.columns import by_columns
from brokerless.typed.merge import merge_types
from brokerless.typed.payloads import PayloadDecoder, rows_decoder
from brokerless.typed.plain import CONNECT_TIMES, parse_json
from brokerless.typed.reasons import Reasons
from brokerless.typed.registry import Schema
from brokerless.typed.times import Moment

_TYPES = {
    "string": pa.string(),
    "integer": pa.int64(),
    "number": pa.float64(),
    "boolean": pa.bool_(),
    "null": pa.null(),
}
_MAX_DEPTH = 60
_MAX_RULE = 60
_ELEMENT = re.compile(r"\[\d+\]")


def json_arrow_type(schema: Schema) -> pa.DataType:
    """Return the Arrow type of what a JSON Schema allows. Raises ValueError for what is no schema."""
    documents = _documents(schema)
    return _type_of(documents[""], documents, "", ())


def _documents(schema: Schema) -> dict[str, Any]:
    """The schema as ``""``, and what it refers to by the names (and ``$id``) of those."""
    found: dict[str, Any] = {"": json.loads(schema.text)}
    todo = list(schema.imports)
    while todo:
        name, each = todo.pop()
        if name not in found:
            found[name] = json.loads(each.text)
            todo += each.imports
    return found


def _type_of(node: Any, documents: dict[str, Any], own: str, above: tuple[str, ...]) -> pa.DataType:
    if not isinstance(node, dict) or len(above) > _MAX_DEPTH:
        return pa.string()
    found = cast("dict[str, Any]", node)
    reference = found.get("$ref")
    if isinstance(reference, str):
        name, _, pointer = reference.partition("#")
        place = f"{name or own}#{pointer}"
        if place in above:
            return pa.string()
        target = _resolve(documents, name or own, pointer)
        return _type_of(target, documents, name or own, (*above, place))
    inner = (*above, "")
    for keyword in ("oneOf", "anyOf", "allOf"):
        if isinstance(found.get(keyword), list) and "properties" not in found:
            return merge_types(_type_of(each, documents, own, inner) for each in found[keyword])
    kind = found.get("type")
    if isinstance(kind, list):
        return merge_types(_type_of({**found, "type": each}, documents, own, inner) for each in cast("list[Any]", kind))
    if kind == "object" or "properties" in found:
        properties = found.get("properties")
        if isinstance(properties, dict) and properties:
            fields = cast("dict[str, Any]", properties).items()
            return pa.struct([pa.field(name, _type_of(each, documents, own, inner)) for name, each in fields])
        values = found.get("additionalProperties")
        return (
            pa.map_(pa.string(), _type_of(values, documents, own, inner)) if isinstance(values, dict) else pa.string()
        )
    if kind == "array":
        return pa.list_(_type_of(found.get("items"), documents, own, inner))
    time = CONNECT_TIMES.get(str(found.get("title")))
    if kind == "integer" and time is not None:
        return time
    if "const" in found or "enum" in found:
        from brokerless.typed.plain import infer

        values = cast("list[Any]", found.get("enum") or [found.get("const")])
        return pa.string() if any(isinstance(each, str) for each in values) else merge_types(map(infer, values))
    return _TYPES.get(kind, pa.string()) if isinstance(kind, str) else pa.string()


def _resolve(documents: dict[str, Any], name: str, pointer: str) -> Any:
    document = documents.get(name)
    if document is None:
        matches = [each for each in documents.values() if isinstance(each, Mapping) and each.get("$id") == name]
        if not matches:
            raise ValueError(f"the schema refers to {name}, which is not there")
        document = matches[0]
    for part in pointer.strip("/").split("/") if pointer.strip("/") else ():
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(document, Mapping) or key not in document:
            raise ValueError(f"the schema refers to #{pointer}, which is not there")
        document = document[key]
    return document


class JsonValidator:
    """Validates documents by one schema."""

    def __init__(self, schema: Schema) -> None:
        """Raises ValueError for what is no schema, :class:`UsageError` where the library is missing."""
        try:
            import jsonschema
            import referencing
            import referencing.exceptions
            from jsonschema.validators import validator_for
            from referencing.jsonschema import DRAFT7, specification_with
        except ImportError:
            raise missing_libraries("decoding by JSON Schema needs more", "decode") from None
        self._documents = documents = _documents(schema)
        resources: list[Any] = []
        for name, each in documents.items():
            rules = specification_with(str(_mapping(each).get("$schema")), default=DRAFT7)
            resources += [(name, rules.create_resource(_without_dialects(each)))] if name else []
        registry: Any = referencing.Registry().with_resources(resources)
        kind: Any = validator_for(documents[""], default=jsonschema.Draft7Validator)
        try:
            kind.check_schema(documents[""])
        except jsonschema.SchemaError as error:
            raise ValueError(f"no JSON Schema: {error.message}") from None
        if _has_pattern_among_unevaluated(schema):
            raise ValueError("patternProperties beside unevaluatedProperties are not supported")
        self._validator = _linear(kind)(_without_dialects(documents[""]), registry=registry)
        self._unresolvable = referencing.exceptions.Unresolvable

    def rule(self, target: pa.DataType) -> ColumnRule | None:
        """Return the schema as a rule for columns of a type; None where it has others."""

        def resolve(reference: str) -> Any:
            name, _, pointer = reference.partition("#")
            if name:
                raise NotByColumnsError  # in other documents, other references are relative to them
            return _resolve(self._documents, "", pointer)

        try:
            return rule_of(self._documents[""], target, self._validator.VALIDATORS.keys(), resolve)
        except (NotByColumnsError, ValueError):
            return None

    def problems(self, document: Any) -> Iterator[Any]:
        """Yield what is not as the schema says, as the library's ``ValidationError``. Raises ValueError where the
        schema refers to what is not there."""
        try:
            yield from self._validator.iter_errors(document)
        except self._unresolvable as error:
            raise ValueError(f"the schema refers to {error}, which is not there") from None

    def check(self, document: Any) -> None:
        """Raises ValueError for the first problem, and as :meth:`problems`."""
        for problem in self.problems(document):
            raise ValueError(f"not as its schema says: {_problem(problem)}")

    def declares(self, route: Sequence[str | int], name: str) -> bool:
        """Return whether the schema names a member in the ``properties`` of what names of members and numbers of
        elements lead to, or in a part of it, as far as it refers to that by pointers."""
        nodes = list(_parts([(self._documents[""], "")], self._documents))
        for step in route:
            nodes = list(_parts([(_step(node, step), own) for node, own in nodes], self._documents))
        return any(name in _mapping(node.get("properties")) for node, _ in nodes)


def _linear(kind: Any) -> Any:
    """A class of validators whose patterns take time linear in a value: the library's, by Python's ``re``, may take
    exponential time."""
    import jsonschema
    from jsonschema.validators import extend

    def pattern(_validator: Any, rule: str, value: Any, _schema: Any) -> Iterator[Any]:
        if isinstance(value, str) and _matches(rule, value) is False:
            yield jsonschema.ValidationError("it does not match")

    def pattern_properties(validator: Any, rules: Mapping[str, Any], value: Any, _schema: Any) -> Iterator[Any]:
        for rule, each in rules.items():
            for name, member in _mapping(value).items():
                if _matches(rule, name):
                    yield from validator.descend(member, each, path=name, schema_path=rule)

    def additional_properties(validator: Any, allowed: Any, value: Any, schema: Mapping[str, Any]) -> Iterator[Any]:
        known, rules = _mapping(schema.get("properties")), _mapping(schema.get("patternProperties"))
        for name, member in _mapping(value).items():
            if name in known or any(_matches(rule, name) is not False for rule in rules):
                continue
            if isinstance(allowed, dict):
                yield from validator.descend(member, allowed, path=name)
            elif not allowed:
                yield jsonschema.ValidationError("it has another property")

    rules: Any = {
        "pattern": pattern,
        "patternProperties": pattern_properties,
        "additionalProperties": additional_properties,
    }
    return extend(kind, rules)


def _matches(pattern: str, text: str) -> bool | None:
    """Return whether a part of a text matches a pattern, by RE2. None for a pattern that RE2 does not know, as one that
    looks ahead."""
    try:
        scalar = pa.scalar(text.encode("utf-8", "replace").decode())
        found: Any = pc.call_function("match_substring_regex", [scalar], pc.MatchSubstringOptions(pattern))
    except pa.ArrowInvalid:
        return None
    return bool(found.as_py())


def _has_pattern_among_unevaluated(schema: Schema) -> bool:
    texts = [schema.text, *(each.text for _, each in schema.imports)]
    return all(any(keyword in text for text in texts) for keyword in ("patternProperties", "unevaluatedProperties"))


def _without_dialects(node: Any) -> Any:
    """A schema without the ``$schema`` of its parts, for each of which the library would choose a class of its own."""
    if isinstance(node, list):
        return list(map(_without_dialects, cast("list[Any]", node)))
    if not isinstance(node, dict):
        return node
    found = cast("dict[str, Any]", node)
    return {
        name: _without_dialects(each)
        for name, each in found.items()
        if not (name == "$schema" and isinstance(each, str))
    }


def _problem(problem: Any) -> str:
    """Return where a document is not as its schema says, and which rule it breaks; without the value, which its bytes
    have, and without numbers of elements, so that one cause is one text."""
    place = _ELEMENT.sub("[]", problem.json_path)
    if problem.validator == "required":
        return f"{place}: {problem.message}"
    rule = json.dumps(problem.validator_value)
    return f"{place}: against {problem.validator}: {rule if len(rule) <= _MAX_RULE else rule[:_MAX_RULE] + '...'}"


def _parts(nodes: list[tuple[Any, str]], documents: dict[str, Any]) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Schemas and all that they refer to or are combined of, once each, with the names of their documents."""
    seen: set[int] = set()
    while nodes:
        node, own = nodes.pop()
        if not isinstance(node, dict) or id(cast("Any", node)) in seen:
            continue
        found = cast("dict[str, Any]", node)
        seen.add(id(found))
        yield found, own
        reference = found.get("$ref")
        if isinstance(reference, str):
            name, _, pointer = reference.partition("#")
            with suppress(ValueError):  # an anchor, or what is somewhere else: the validator knows more of these
                nodes.append((_resolve(documents, name or own, pointer), name or own))
        for keyword in ("oneOf", "anyOf", "allOf"):
            parts = found.get(keyword)
            nodes += [(each, own) for each in cast("list[Any]", parts)] if isinstance(parts, list) else []


def _step(node: Mapping[str, Any], step: str | int) -> Any:
    """The schema of a member or an element."""
    if isinstance(step, str):
        return _mapping(node.get("properties")).get(step, node.get("additionalProperties"))
    for keyword in ("prefixItems", "items"):
        items = node.get(keyword)
        if isinstance(items, list):
            each = cast("list[Any]", items)
            if step < len(each):
                return each[step]
        elif items is not None:
            return items
    return node.get("additionalItems")


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def json_decoder(schema: Schema, target: pa.DataType) -> PayloadDecoder:
    """Return the decoder of a schema's payloads into ``target``; what the schema does not allow is refused. Raises as
    :class:`JsonValidator`."""
    validator, own = JsonValidator(schema), json_arrow_type(schema)
    has_times = _has_times(own)

    def parse(data: bytes) -> Any:
        value = parse_json(data)
        validator.check(value)
        return value

    def parse_with_times(data: bytes) -> Any:
        return _with_times(parse(data), own, target)

    by_rows = rows_decoder(parse_with_times if has_times else parse, target)
    if has_times and _times_are_as(own, target):
        return _times_by_columns(validator, parse, target, by_rows)
    rule = validator.rule(target)
    return by_rows if rule is None else by_columns(target, by_rows, rule)


def _times_by_columns(
    validator: JsonValidator, parse: Callable[[bytes], Any], target: Any, by_rows: PayloadDecoder
) -> PayloadDecoder:
    """A decoder that reads the numbers of times by columns; what they, or some of them, do not fit is ``by_rows``."""
    numbers = without_times(target, short=pa.int64())
    rule = validator.rule(numbers)
    if rule is None:
        return by_rows
    by_numbers = by_columns(numbers, rows_decoder(parse, numbers), rule)

    def decode(frame: Frame, data: Any, starts: Any, ends: Any) -> tuple[Column, Reasons]:
        found: Any
        found, reasons = by_numbers(frame, data, starts, ends)
        if not reasons:
            with suppress(pa.ArrowInvalid):
                return found.cast(without_times(target)).cast(target), reasons
        return by_rows(frame, data, starts, ends)

    return decode


def _has_times(type_: Any) -> bool:
    return without_times(type_) != type_


def _times_are_as(own: Any, target: Any) -> bool:
    """Return whether each time of a target is one of the schema's, of the same type, and the other way round."""
    t = pa.types
    if t.is_struct(own) and t.is_struct(target):
        names = {each.name for each in own} | {each.name for each in target}
        return all(_times_are_as(_type_in(own, name), _type_in(target, name)) for name in names)
    if t.is_list(own) and t.is_list(target):
        return _times_are_as(own.value_type, target.value_type)
    return own == target or not (_has_times(own) or _has_times(target))


def _type_in(struct: Any, name: str) -> pa.DataType:
    index = struct.get_field_index(name)
    return pa.null() if index < 0 else struct.field(index).type


def _with_times(value: Any, own: Any, target: Any) -> Any:
    """A value with its times, by the schema's own type; where a table has numbers for them, they stay numbers."""
    t = pa.types
    if t.is_struct(own) and isinstance(value, dict):
        inner = target if t.is_struct(target) else own
        members = cast("dict[str, Any]", value).items()
        return {name: _with_times(each, _type_in(own, name), _type_in(inner, name)) for name, each in members}
    if t.is_list(own) and isinstance(value, list):
        inner = target.value_type if t.is_list(target) else own.value_type
        return [_with_times(each, own.value_type, inner) for each in cast("list[Any]", value)]
    if t.is_map(own) and isinstance(value, dict):
        inner = target.item_type if t.is_map(target) else own.item_type
        members = cast("dict[str, Any]", value).items()
        return {name: _with_times(each, own.item_type, inner) for name, each in members}
    is_time = t.is_temporal(own) and not t.is_integer(target) and isinstance(value, (int, float))
    if is_time and not isinstance(value, bool) and value == int(value):  # 5.0 is a whole number of JSON Schema
        return Moment(int(value), own)
    return value
