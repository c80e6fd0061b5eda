"""Checks values of settings against Kafka's own definitions, which differ between versions.

``definitions.json`` is written by ``scripts/generate_setting_definitions.py`` from ``LogConfig`` and ``KafkaConfig``.
A broker parses the settings of every topic in the cluster's metadata while it starts (``LogManager``), and ends at a
value that it refuses. Source: ``ConfigDef`` (``parseType``, ``Range``, ``ValidString``, ``ValidList``; 3.9.1, 4.4.0).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from brokerless.bounds import MAX_INT32, MAX_INT64
from brokerless.errors import UsageError

Kind = Literal["topic", "broker", "group"]
Definition = Mapping[str, Any]

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?[dDfF]?")
_LARGEST = {"SHORT": (1 << 15) - 1, "INT": MAX_INT32, "LONG": MAX_INT64}


@cache
def _definitions() -> Mapping[str, Mapping[Kind, Mapping[str, Definition]]]:
    return json.loads(Path(__file__).with_name("definitions.json").read_bytes())


def versions() -> tuple[str, ...]:
    """The versions of Kafka whose definitions are known, oldest first."""
    return tuple(_definitions())


def settings_of(kind: Kind, version: str) -> Mapping[str, Definition]:
    """All settings of a kind that a version has, by name: their types, bounds, words and defaults, as in the file."""
    return _definitions()[version].get(kind, {})


def synonyms_of(kind: Kind, name: str) -> tuple[str, ...]:
    """Return what brokers call their default for a setting of topics or groups, first that which counts first; none for
    settings that no version has. Source: ``ServerTopicConfigSynonyms``, ``GroupConfig``."""
    for version in reversed(versions()):
        if name in settings_of(kind, version):
            return tuple(settings_of(kind, version)[name].get("synonyms", ()))
    return ()


def find_version(text: str) -> str:
    """``4.4`` or ``4.4.0`` -> ``4.4.0``. Raises :class:`UsageError` for a version that is not known."""
    for version in versions():
        if text in (version, version.rpartition(".")[0]):
            return version
    raise UsageError(f"settings of Kafka {text!r} are not known; known are {', '.join(versions())}")


def is_defined(kind: Kind, name: str, version: str) -> bool:
    """Return whether a version has a setting of this name; a broker passes over those that it has not."""
    return name in _definitions()[version][kind]


def is_password(name: str) -> bool:
    """Return whether any version has a broker's setting of this name as a password."""
    return any(each["broker"].get(name, {}).get("type") == "PASSWORD" for each in _definitions().values())


def refusal(kind: Kind, name: str, value: str, version: str) -> str | None:
    """Return why a version of Kafka does not take a value; None if it does, or has no such setting."""
    definition = _definitions()[version][kind].get(name)
    if definition is None:
        return None
    text, type_ = value.strip(), definition["type"]
    match type_:
        case "BOOLEAN":
            return None if text.lower() in ("true", "false") else "true or false"
        case "SHORT" | "INT" | "LONG":
            largest = _LARGEST[type_]
            if not _INTEGER.fullmatch(text) or not -largest - 1 <= int(text) <= largest:
                return f"a number of type {type_.lower()}"
            return _out_of_bounds(definition, int(text))
        case "DOUBLE":
            return _out_of_bounds(definition, float(text.rstrip("dDfF"))) if _FLOAT.fullmatch(text) else "a number"
        case "LIST":
            return _refused_list(definition, text)
        case _:
            return _refused_word(definition, text)


def _out_of_bounds(definition: Definition, number: float) -> str | None:
    least, most = definition.get("least"), definition.get("most")
    if number == definition.get("or") or ((least is None or number >= least) and (most is None or number <= most)):
        return None
    if most is None:
        return f"{least} or more"
    bounds = f"at most {most}" if least is None else f"{least} to {most}"
    return f"{bounds}, or {definition['or']}" if "or" in definition else bounds


def _refused_list(definition: Definition, text: str) -> str | None:
    words = re.split(r"\s*,\s*", text) if text else []
    if not words and definition.get("mayBeEmpty") is False:
        return "at least one word"
    if "entries" in definition:
        return None if all(re.fullmatch(definition["entries"], each) for each in words) else "partition:broker, or *"
    return next(filter(None, (_refused_word(definition, each) for each in words)), None)


def _refused_word(definition: Definition, text: str) -> str | None:
    words = cast("list[str] | None", definition.get("words"))
    if words is not None and text not in words:
        return f"one of {', '.join(words)}"
    any_case = cast("list[str] | None", definition.get("anyCase"))
    if any_case is not None and text.upper() not in (each.upper() for each in any_case):
        return f"one of {', '.join(any_case)}"
    return None
