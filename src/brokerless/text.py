"""Makes untrusted text (file names, records' contents) safe to encode and to print."""

from __future__ import annotations

import re
from contextlib import suppress

_CONTROLS = re.compile("[\x00-\x1f\x7f]+")
_MOST_ESCAPES = 1 << 14
_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


def readable(name: str) -> str:
    """A name as UTF-8 can hold it: what is no UTF-8 in a path (PEP 383) becomes ``\\xff``.

    What is UTF-8 becomes text even where Python's own idea of paths is ASCII.
    """
    for errors in ("surrogateescape", "backslashreplace"):  # the latter: what only Windows has in names
        with suppress(UnicodeEncodeError):
            return name.encode(errors=errors).decode(errors="backslashreplace")
    raise AssertionError("everything can be escaped")


def java_text(data: bytes) -> str:
    """UTF-8 as Java's ``String`` takes it: what is none becomes U+FFFD, and an encoded surrogate, cut off or not, is
    one of them (Python would make up to three)."""
    return _SURROGATE.sub(_REPLACEMENT, data).decode(errors="replace")


def show(text: str) -> str:
    """``text`` without anything that moves a terminal's cursor or does not show."""
    if text.isprintable():
        return text
    text = _CONTROLS.sub(lambda run: _escaped(run[0]), text)
    return text if text.isprintable() else text.translate(_ESCAPES)


def show_name(name: str) -> str:
    """A path, or a message that has one in it, on one line."""
    return show(readable(name))


def _escaped(text: str) -> str:
    return text.encode("unicode_escape").decode()


class _Escapes(dict[int, str]):
    """What to write for each character, found out when it is first met."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        text = char if char.isprintable() else _escaped(char)
        if len(self) < _MOST_ESCAPES:
            self[code] = text
        return text


_ESCAPES = _Escapes()
