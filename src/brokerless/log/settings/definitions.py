"""Checks values of settings against Kafka's own definitions, which differ between versions.

``definitions.json`` is written by ``scripts/generate_setting_definitions.py`` from ``LogConfig`` and ``KafkaConfig``.
A broker parses the settings of every topic in the cluster's metadata while it starts (``LogManager``), and ends at a
value that it refuses. Source: ``ConfigDef`` (``parseType``, ``Range``, ``ValidString``, ``ValidList``; 3.9 to 4.4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal, cast

from brokerless.bounds import MAX_INT32, MAX_INT64
from brokerless.errors import UsageError

SettingKind = Literal["topic", "broker", "group"]
Definition = Mapping[str, Any]

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_FLOAT = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?[dDfF]?")
_VERSION = re.compile(r"[0-9]{1,3}(\.[0-9]{1,3}){1,2}")
_LARGEST = {"SHORT": (1 << 15) - 1, "INT": MAX_INT32, "LONG": MAX_INT64}


@cache
def _file() -> Mapping[str, Any]:
    return json.loads(Path(__file__).with_name("definitions.json").read_bytes())


@cache
def _definitions(version: str) -> Mapping[SettingKind, Mapping[str, Definition]]:
    """Return those of a version: in the file they are by the version that changed them."""
    known = versions()[: versions().index(version) + 1]
    found: dict[SettingKind, dict[str, Definition]] = {"topic": {}, "broker": {}, "group": {}}
    for kind, definitions in found.items():
        for name, changes in _file()[kind].items():
            of_version = next((changes[each] for each in reversed(known) if each in changes), None)
            if of_version is not None:
                definitions[name] = of_version
    return found


def versions() -> tuple[str, ...]:
    """Return the versions of Kafka whose rules are known, oldest first: of each minor one the newest that was tried."""
    return tuple(_file()["versions"])


def is_since(version: str, since: str) -> bool:
    """Return whether one of these versions is another one, or newer."""
    known = versions()
    return known.index(version) >= known.index(since)


def settings_of(kind: SettingKind, version: str) -> Mapping[str, Definition]:
    """Return all settings of a kind that a version has, by name: their types, bounds, words and defaults, as in the
    file."""
    return _definitions(version)[kind]


def synonyms_of(kind: SettingKind, name: str) -> tuple[str, ...]:
    """Return what brokers call their default for a setting of topics or groups, first that which counts first; none for
    settings that no version has. Source: ``ServerTopicConfigSynonyms``, ``GroupConfig``."""
    for version in reversed(versions()):
        if name in settings_of(kind, version):
            return tuple(settings_of(kind, version)[name].get("synonyms", ()))
    return ()


def find_version(text: str) -> str:
    """Return ``4.4.0`` for ``4.4`` or ``4.4.0``. Raises :class:`UsageError` for a version that is not known."""
    for version in versions():
        if text in (version, minor_of(version)):
            return version
    known = ", ".join(f"{minor_of(each)} ({each})" for each in versions())
    raise UsageError(f"the rules of Kafka {text!r} are not known; known are {known}{_nearest(text)}")


def _nearest(text: str) -> str:
    """Return what to ask for instead of a version that is not known; nothing for what is no version."""
    if not _VERSION.fullmatch(text):
        return ""
    by_minor = {tuple(map(int, minor_of(each).split("."))): minor_of(each) for each in versions()}
    asked = tuple(map(int, text.split(".")[:2]))
    if asked < min(by_minor):
        oldest = by_minor[min(by_minor)]
        return f". Starts of older ones were not recorded: {oldest} says what an upgrade to it makes of the directory"
    return f"; the nearest is {by_minor[max(each for each in by_minor if each <= asked)]}"


def minor_of(version: str) -> str:
    """``4.4.0`` -> ``4.4``."""
    return version.rpartition(".")[0]


def describe_versions(some: Collection[str]) -> str:
    """Return versions for people, oldest first, those that follow each other as one: ``3.9 and 4.1 to 4.4``."""
    runs: list[list[str]] = []
    for before, version in zip([None, *versions()], versions(), strict=False):
        if version in some and before in some:
            runs[-1].append(minor_of(version))
        elif version in some:
            runs.append([minor_of(version)])
    texts = [text for each in runs for text in (each if len(each) < 3 else [f"{each[0]} to {each[-1]}"])]
    return f"{', '.join(texts[:-1])} and {texts[-1]}" if len(texts) > 1 else "".join(texts)


def is_password(name: str) -> bool:
    """Return whether any version has a broker's setting of this name as a password."""
    return any(settings_of("broker", each).get(name, {}).get("type") == "PASSWORD" for each in versions())


def refusal(kind: SettingKind, name: str, value: str, version: str) -> str | None:
    """Return why a version of Kafka does not take a value; None if it does, or has no such setting."""
    definition = _definitions(version)[kind].get(name)
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
