"""The layouts of messages are Kafka's definitions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from scripts.generate_message_layouts import CONTROL_TARGET, TARGET, generate, generate_control


def layouts(text: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {(each["topic"], each["kind"], each["apiKey"], each["name"]): each for each in json.loads(text)["messages"]}


def without_newer_fields(fields: list[dict[str, Any]], older: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Fields but tagged ones that an older definition has not: its readers pass over their tags."""
    known = {each["name"]: each for each in older}
    kept = [each for each in fields if each["name"] in known or "tag" not in each]
    return [
        {**each, "fields": without_newer_fields(each["fields"], known[each["name"]]["fields"])}
        if "fields" in each and "fields" in known.get(each["name"], ())
        else each
        for each in kept
    ]


def test_the_layouts_hold_all_that_the_definitions_in_kafkas_jars_say(kafka_jars: Path) -> None:
    ours, theirs = layouts(TARGET.read_text()), layouts(generate(kafka_jars))
    assert ours.keys() >= theirs.keys()
    for key, layout in theirs.items():
        assert {**ours[key], "fields": without_newer_fields(ours[key]["fields"], layout["fields"])} == layout


def test_the_layouts_are_facts_and_no_sentences() -> None:
    assert " " not in TARGET.read_text().replace("\n", "")
    assert json.loads(TARGET.read_text())["kafka"].startswith("4.")


def test_those_of_control_records_are_the_definitions_in_kafkas_jars(kafka_jars: Path) -> None:
    assert CONTROL_TARGET.read_text() == generate_control(kafka_jars)
