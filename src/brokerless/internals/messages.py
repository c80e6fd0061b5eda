"""The messages of Kafka's own topics, by ``messages.json``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

from brokerless.format.messages.layouts import Message, load_messages

_FILE = Path(__file__).with_name("messages.json")


@dataclass(frozen=True, slots=True)
class Messages:
    """The known messages of one topic, by record type."""

    keys: dict[int, Message]
    values: dict[int, Message]


@cache
def messages(topic: str) -> Messages:
    """Return the messages of an internal topic; none for other topics."""
    own = [each for each in load_messages(_FILE) if each.topic == topic and each.api_key is not None]
    keys, values = ({each.api_key or 0: each for each in own if each.kind == kind} for kind in ("key", "value"))
    return Messages(keys, values)


@cache
def message(name: str) -> Message:
    """Return a message by its name."""
    return next(each for each in load_messages(_FILE) if each.name == name)
