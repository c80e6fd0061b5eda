"""Who a client is by its certificate: the name of its subject as Java writes it, and so as a broker's ACLs have it.

Sources: RFC 2253 as ``X500Principal.getName`` writes it (``AVA.toRFC2253String`` of the JDK, 17), and the rules of
``ssl.principal.mapping.rules`` (``SslPrincipalMapper``, 4.4.0). TLS has checked the certificate before.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from brokerless.errors import UsageError

_KEYWORDS = {
    "2.5.4.3": "CN",
    "2.5.4.6": "C",
    "2.5.4.7": "L",
    "2.5.4.8": "ST",
    "2.5.4.9": "STREET",
    "2.5.4.10": "O",
    "2.5.4.11": "OU",
    "0.9.2342.19200300.100.1.1": "UID",
    "0.9.2342.19200300.100.1.25": "DC",
}
"""Of RFC 2253; all others are an OID, with their value in hex."""
_SEQUENCE, _SET, _OID, _VERSION = 0x30, 0x31, 0x06, 0xA0
_TEXTS = frozenset((0x0C, 0x13, 0x14, 0x16, 0x1B, 0x1E))
"""UTF8String, PrintableString, TeletexString, IA5String, GeneralString and BMPString."""
_ESCAPED = re.compile(r'[,=+<>#;"\\]')
_BLANK = " \r"
_LONG, _LONG_TAG = 0x80, 0x1F
_FIELDS_BEFORE_SUBJECT = 4
"""The serial number, the algorithm of the signature, the issuer and the validity."""


DEFAULT = "DEFAULT"
"""The rule that leaves names unchanged."""
_RULE = r"(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?)"
_SPLITTER = re.compile(rf"\s*((?:{_RULE}).*?|.*?)\s*(?:,\s*|$)")
_REPLACEMENT = re.compile(r"\\(.)|\$(\d+)|[^\\$]", re.DOTALL)
_LINE_ENDS = frozenset("\n\r\x85\u2028\u2029")
"""What a dot of Java matches not, and one of Python does, but for the first."""


class NotReadError(Exception):
    """A certificate without a subject that could be read, or to whose name no rule applies."""


@dataclass(frozen=True, slots=True)
class _CertificateValue:
    tag: int
    content: bytes
    whole: bytes


def _values(data: bytes) -> list[_CertificateValue]:
    """The DER values that follow each other."""
    found: list[_CertificateValue] = []
    at = 0
    while at < len(data):
        if at + 2 > len(data):
            raise NotReadError
        tag, size, start = data[at], data[at + 1], at + 2
        if size == _LONG or tag & _LONG_TAG == _LONG_TAG:  # not in DER; not in names
            raise NotReadError
        if size > _LONG:
            start += size - _LONG
            size = int.from_bytes(data[at + 2 : start], "big")
        if start + size > len(data):
            raise NotReadError
        found.append(_CertificateValue(tag, data[start : start + size], data[at : start + size]))
        at = start + size
    return found


def _inside(value: _CertificateValue, tag: int) -> list[_CertificateValue]:
    if value.tag != tag:
        raise NotReadError
    return _values(value.content)


def subject_of(certificate: bytes) -> str:
    """Return the name of the subject of a certificate (DER). Raises :class:`NotReadError`."""
    try:
        (whole,) = _values(certificate)
        fields = _inside(_inside(whole, _SEQUENCE)[0], _SEQUENCE)
        return name_of(fields[_FIELDS_BEFORE_SUBJECT + (fields[0].tag == _VERSION)].whole)
    except (IndexError, ValueError) as error:
        raise NotReadError from error


def name_of(subject: bytes) -> str:
    """Return a distinguished name (DER) as text. Raises :class:`NotReadError`, ValueError."""
    (whole,) = _values(subject)
    parts = ["+".join(map(_attribute, _inside(each, _SET))) for each in _inside(whole, _SEQUENCE)]
    return ",".join(reversed(parts))


def _attribute(pair: _CertificateValue) -> str:
    type_, value = _inside(pair, _SEQUENCE)
    if type_.tag != _OID:
        raise NotReadError
    oid = _oid(type_.content)
    keyword = _KEYWORDS.get(oid)
    if keyword is None or value.tag not in _TEXTS:
        return f"{keyword or oid}=#{value.whole.hex()}"
    text = _ESCAPED.sub(r"\\\g<0>", value.content.decode(errors="replace")).replace("\0", "\\00")
    start = len(text) - len(text.lstrip(_BLANK))
    end = max(start, len(text.rstrip(_BLANK)))
    return f"{keyword}={_escaped(text[:start])}{text[start:end]}{_escaped(text[end:])}"


def _escaped(blanks: str) -> str:
    return "".join("\\" + each for each in blanks)


def _oid(content: bytes) -> str:
    numbers: list[int] = []
    number = 0
    for each in content:
        number = number << 7 | each & 0x7F
        if each < _LONG:
            numbers.append(number)
            number = 0
    if not numbers or content[-1] >= _LONG:
        raise NotReadError
    first = min(numbers[0] // 40, 2)
    return ".".join(map(str, (first, numbers[0] - 40 * first, *numbers[1:])))


@dataclass(frozen=True, slots=True)
class _Rule:
    """A mapping rule."""

    pattern: re.Pattern[str] | None = None
    """None where a name is left unchanged."""
    replacement: Sequence[str | int] = ()
    """Texts, and numbers of the pattern's groups."""
    letters: str = ""

    def apply(self, name: str) -> str | None:
        """Return the user, None where the rule does not apply."""
        if self.pattern is None:
            return name
        if self.pattern.fullmatch(name) is None:
            return None
        mapped = self.pattern.sub(self._replaced, name)
        return {"L": mapped.lower(), "U": mapped.upper()}.get(self.letters, mapped)

    def _replaced(self, match: re.Match[str]) -> str:
        return "".join(each if isinstance(each, str) else match[each] or "" for each in self.replacement)


@dataclass(frozen=True, slots=True)
class MappingRules:
    """What makes users of the names in certificates (``ssl.principal.mapping.rules``); without rules, names are
    users."""

    rules: Sequence[_Rule] = (_Rule(),)

    def user_of(self, certificate: bytes) -> str:
        """Return the user who has a certificate (DER). Raises :class:`NotReadError`."""
        return self.map(subject_of(certificate))

    def map(self, name: str) -> str:
        """Return the user of a subject's name. Raises :class:`NotReadError` where no rule applies."""
        if any(each.pattern is not None for each in self.rules) and not _LINE_ENDS.isdisjoint(name):
            raise NotReadError
        for each in self.rules:
            user = each.apply(name)
            if user is not None:
                return user
        raise NotReadError


def parse_rules(text: str) -> MappingRules:
    """Read rules as ``server.properties`` has them: RULE:PATTERN/REPLACEMENT/[LU], one after the other with commas, and
    DEFAULT for the name itself. Raises :class:`UsageError` for what is none, or is not the same here as in Java."""
    rules: list[_Rule] = []
    for found in _SPLITTER.finditer(text.strip()):
        if not found[1]:
            continue
        match = re.fullmatch(_RULE, found[1])
        if match is None:
            raise UsageError(f"{found[1]!r} is no rule; a rule is RULE:PATTERN/REPLACEMENT/, with L or U after it for "
                             "small or capital letters, or DEFAULT")  # fmt: skip
        rules.append(_Rule() if match[1] else _parsed(match))
    if not rules:
        raise UsageError("without any rule, nobody would be a user; DEFAULT leaves names as they are")
    return MappingRules(rules)


def _parsed(rule: re.Match[str]) -> _Rule:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # sets in sets are no sets in Python
            pattern = re.compile(rule[2], re.ASCII)
    except (re.error, OverflowError, RecursionError, Warning) as error:
        raise UsageError(f"{rule[0]!r}: {rule[2]!r} cannot be used here: {error}") from error
    parts: list[str | int] = []
    at = 0
    for found in _REPLACEMENT.finditer(rule[3]):
        if found.start() != at:
            break
        at = found.end()
        if found[2] is None:
            parts.append(found[1] or found[0])
            continue
        digits = 1
        while digits < len(found[2]) and int(found[2][: digits + 1]) <= pattern.groups:
            digits += 1
        number = int(found[2][:digits])
        if number > pattern.groups:
            raise UsageError(f"{rule[0]!r}: the pattern has no group {number}")
        parts += [number, found[2][digits:]]
    if at != len(rule[3]):
        raise UsageError(f"{rule[0]!r}: in {rule[3]!r}, a $ is for a group, as $1, or has a backslash before it")
    return _Rule(pattern, parts, rule[4])
