"""Patterns of the names that copies of segments have: ``{topic}/{partition}/{offset}-*.log``."""

from __future__ import annotations

import re
from dataclasses import dataclass

from brokerless.bounds import MAX_INT64
from brokerless.errors import UsageError
from brokerless.log import names
from brokerless.log.tiered.object_names import ObjectKind

_FIELDS = {
    "topic": r"(?P<topic>[A-Za-z0-9._-]+?)",
    "partition": r"(?P<partition>0|[1-9][0-9]{0,9})",
    "offset": r"(?P<offset>[0-9]{1,20})",
}
_PARTS = re.compile(r"\{([^{}]*)\}|(\*\*|\*|\?)")
_COMPANIONS: dict[str, ObjectKind] = {
    ".log": "log",
    **{".index": "index", ".timeindex": "timeindex", ".txnindex": "txnindex", ".snapshot": "snapshot"},
}


@dataclass(frozen=True, slots=True)
class CopyName:
    """What a name says of a copied file."""

    topic: str
    partition: int
    start_offset: int
    kind: ObjectKind


@dataclass(frozen=True, slots=True)
class Layout:
    """The pattern of the names that copies of segments have below a directory."""

    text: str
    """The pattern as users write it: ``{topic}``, ``{partition}`` and ``{offset}`` are what they say, ``*`` and ``?``
    any characters but a slash."""

    @property
    def depth(self) -> int:
        """Levels of directories."""
        return self.text.count("/")

    def parse(self, name: str) -> CopyName | None:
        """Parse a name relative to the directory; None for any other name. Indexes are beside their log, named as
        it."""
        stem, dot, suffix = name.rpartition(".")
        kind = _COMPANIONS.get(dot + suffix) if self.text.endswith(".log") else "log"
        match = _compile(self.text).fullmatch(f"{stem}.log" if self.text.endswith(".log") else name)
        if match is None or kind is None:
            return None
        partition, offset = int(match["partition"]), int(match["offset"])
        is_right = names.is_partition(match["topic"], partition) and offset <= MAX_INT64
        return CopyName(match["topic"], partition, offset, kind) if is_right else None


def parse_layout(text: str) -> Layout:
    """Raises :class:`UsageError` for a pattern that does not name all three fields, each once."""
    fields = [each[1] for each in _PARTS.finditer(text) if each[1] is not None]
    unknown = next((each for each in fields if each not in _FIELDS), None)
    if unknown is not None:
        raise UsageError(f"layout: there is no {{{unknown}}}; there are {{topic}}, {{partition}} and {{offset}}")
    missing = next((each for each in _FIELDS if fields.count(each) != 1), None)
    if missing is not None:
        raise UsageError(f"layout: {{{missing}}} has to be in it, once, as in {{topic}}/{{partition}}/{{offset}}-*.log")
    if "**" in text or text.startswith("/") or "//" in text:
        raise UsageError("layout: it is relative to the path, and has as many slashes as there are directories")
    return Layout(text)


def _compile(text: str) -> re.Pattern[str]:
    expression, at = "", 0
    for part in _PARTS.finditer(text):
        expression += re.escape(text[at : part.start()])
        expression += _FIELDS[part[1]] if part[1] is not None else {"*": "[^/]*", "?": "[^/]"}[part[2]]
        at = part.end()
    return re.compile(expression + re.escape(text[at:]))
