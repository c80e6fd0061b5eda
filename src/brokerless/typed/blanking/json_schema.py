"""Finds what to change of a JSON payload, so that its JSON Schema permits it without some fields' values.

A field becomes the first of these that the schema permits: null, an empty string, 0, false, an empty array or object,
the first value of its ``enum``, its ``minimum``.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

from brokerless.typed.blanking.edits import Edit, NotBlankedError
from brokerless.typed.blanking.json_text import Route, edits_of, find_spans
from brokerless.typed.blanking.paths import NamedFields, path_text
from brokerless.typed.json.schema import JsonValidator
from brokerless.typed.plain import parse_json

_MOST_NAMED = 8
_CANDIDATES: tuple[Any, ...] = (None, "", 0, False, [], {})


def json_schema_edits(data: bytes, validator: JsonValidator, fields: NamedFields) -> list[Edit]:
    """Return the edits of a payload. ``validator``: of the schema. Raises ValueError for what is no JSON or what the
    schema does not permit, and NotBlankedError where it permits no empty value."""
    fields.declares = validator.declares
    text, document = data.decode(), parse_json(data)
    validator.check(document)
    values: list[str] = []
    spans = find_spans(text, fields)
    for span in spans:
        values.append(json.dumps(_permitted(document, span.route, validator)))
    return edits_of(text, spans, values, fields)


def _permitted(document: Any, route: Route, validator: JsonValidator) -> Any:
    """Puts the first empty value that is permitted in its place of the document."""
    holder = document
    for each in route[:-1]:
        holder = holder[each]
    named: list[Any] = []
    for candidate in chain(_CANDIDATES, named):
        holder[route[-1]] = candidate
        problems = list(validator.problems(document))
        if not problems:
            return candidate
        if len(named) < _MOST_NAMED:
            named += [each for each in _named_by(problems, route) if each not in named]
    field = path_text(each for each in route if isinstance(each, str))
    raise NotBlankedError(f"has a schema that permits neither null nor an empty value as its field {field}")


def _named_by(problems: Sequence[Any], route: Route) -> list[Any]:
    """Return what a schema says that a value has to be."""
    found: list[Any] = []
    for each in problems:
        if tuple(each.absolute_path) == route:
            if each.validator == "enum" and isinstance(each.validator_value, list):
                found += each.validator_value[:1]
            elif each.validator in ("minimum", "const"):
                found.append(each.validator_value)
    return found
