"""DescribeConfigs (1 to 4): all settings of topics, brokers and groups.

Values are those that the cluster's metadata has: a topic's or a group's own, and those of brokers that were changed
while they ran. What a broker's ``server.properties`` said is not on its disks: there, Kafka's defaults are answered, as
by a broker that sets nothing. Values of passwords, and of settings that Kafka does not know, are not sent. Loggers of a
broker are none. Source: ``ConfigHelper`` (4.4.0). Left out: documentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import cache

from brokerless.log.settings.definitions import Definition, SettingKind, settings_of, versions
from brokerless.serving.answers.metadata import is_topic_name
from brokerless.serving.context import Request, Serving
from brokerless.serving.protocol.errors import Error
from brokerless.values import Row

_TOPIC, _BROKER, _BROKER_LOGGER, _METRICS, _GROUP = 2, 4, 8, 16, 32
"""``ConfigResource.Type``."""
_OF_TOPIC, _OF_BROKER, _OF_ALL_BROKERS, _STATIC, _DEFAULT, _OF_METRICS, _OF_GROUP = 1, 2, 3, 4, 5, 7, 8
"""``DescribeConfigsResponse.ConfigSource``."""
_TYPES = {
    name: number
    for number, name in enumerate(
        ("BOOLEAN", "STRING", "INT", "SHORT", "LONG", "DOUBLE", "LIST", "CLASS", "PASSWORD"), 1
    )
}
"""``DescribeConfigsResponse.ConfigType``; 0 is unknown."""
_ALSO = {
    "log.retention.ms": ("log.retention.minutes", "log.retention.hours"),
    "log.roll.ms": ("log.roll.hours",),
    "log.roll.jitter.ms": ("log.roll.jitter.hours",),
    "log.flush.interval.ms": ("log.flush.scheduler.interval.ms",),
}
"""What else sets a broker's setting where it is not set itself (``DynamicBrokerConfig.brokerConfigSynonyms``)."""
_UNKNOWN: Definition = {"type": None}
_MOST_KNOWN = 100
"""Resources whose settings are in memory while an answer is made, which may be requested by many names."""


async def answer_configs(serving: Serving, request: Request) -> Row:
    """Return the settings of each resource, or those of them that are named."""
    await serving.refreshed()
    return await serving.in_thread(_answer, serving, request)


def _answer(serving: Serving, request: Request) -> Row:
    has_synonyms = request.body.get("includeSynonyms", False)
    known: dict[tuple[int, str], dict[str, Row]] = {}
    return {"results": (_resource(serving, each, known, has_synonyms) for each in request.body["resources"])}


def _resource(serving: Serving, wanted: Row, known: dict[tuple[int, str], dict[str, Row]], has_synonyms: bool) -> Row:
    type_, name = wanted["resourceType"], wanted["resourceName"]
    row = {"resourceType": type_, "resourceName": name}
    refused = _refusal(serving, type_, name)
    if refused is not None:
        error, text = refused
        return row | {"errorCode": error, "errorMessage": text}
    keys = wanted["configurationKeys"]
    settings = known.get((type_, name))
    if settings is None:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        no = {} if has_synonyms else {"synonyms": []}
        settings = known[type_, name] = {each["name"]: each | no for each in _settings(serving, type_, name)}
    return row | {"configs": [settings[each] for each in sorted(set(keys or settings)) if each in settings]}


def _refusal(serving: Serving, type_: int, name: str) -> tuple[Error, str] | None:
    if type_ == _TOPIC and not is_topic_name(name):
        return Error.INVALID_TOPIC_EXCEPTION, f"a topic cannot be named {name!r}"
    if type_ == _TOPIC and name not in serving.topics.by_name:
        return Error.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {name!r}"
    if type_ in (_METRICS, _GROUP) and not name:
        return Error.INVALID_REQUEST, "the name of a group or a subscription is missing"
    if type_ == _BROKER_LOGGER and not name:
        return Error.INVALID_REQUEST, "the ID of a broker is missing"
    if type_ in (_BROKER, _BROKER_LOGGER) and name not in ("", str(serving.node_id)):
        return Error.INVALID_REQUEST, f"the only broker here is {serving.node_id}, and not {name!r}"
    if type_ not in (_TOPIC, _BROKER, _BROKER_LOGGER, _METRICS, _GROUP):
        return Error.INVALID_REQUEST, f"resources of type {type_} are not known"
    return None


def _settings(serving: Serving, type_: int, name: str) -> Iterator[Row]:
    cluster = serving.topics.cluster
    known = {} if cluster is None else cluster.configs
    own, of_all = known.get((type_, name), {}), known.get((_BROKER, ""), {})
    of_broker = known.get((_BROKER, str(serving.node_id)), {})
    sources = ((_OF_BROKER, of_broker), (_OF_ALL_BROKERS, of_all), (_DEFAULT, _defaults()))
    match type_:
        case 2:
            yield from _with_own("topic", _OF_TOPIC, own, sources)
        case 32:
            yield from _with_own("group", _OF_GROUP, own, sources)
        case 16:
            for each, value in own.items():
                yield _row(each, value, [(each, value, _OF_METRICS)], is_shown=True) | {"synonyms": []}
        case 4 if not name:
            for each, value in of_all.items():
                yield _of_broker(each, value, [(each, value, _OF_ALL_BROKERS)])
        case 4:
            node = {"node.id": name}
            for each in dict.fromkeys((*_named("broker"), *of_broker, *of_all)):
                found = _chain((each, *_ALSO.get(each, ())), (*sources[:2], (_STATIC, node), sources[2]))
                yield _of_broker(each, found[0][1] if found and found[0][0] == each else None, found)
        case _:
            return


_VERSION = versions()[-1]


def _with_own(
    kind: SettingKind, source: int, own: Mapping[str, str], sources: Iterable[tuple[int, Mapping[str, str]]]
) -> Iterator[Row]:
    """Settings of a topic or a group: its own value, or else that of its broker."""
    definitions = settings_of(kind, _VERSION)
    for name in dict.fromkeys((*_named(kind), *own)):
        definition = definitions.get(name, _UNKNOWN)
        default = definition.get("default")
        of_broker = _chain(definition.get("synonyms", ()), sources)
        value = of_broker[0][1] if of_broker and (of_broker[0][2] != _DEFAULT or default is None) else default
        if kind == "group" and not of_broker and default is not None:
            of_broker = [(name, default, _DEFAULT)]
        chain = of_broker
        if name in own:
            value = _as_printed(own[name], definition["type"])
            chain = [(name, value, source), *of_broker]
        yield _row(name, value, chain, definition)


def _chain(names: Iterable[str], sources: Iterable[tuple[int, Mapping[str, str]]]) -> list[tuple[str, str, int]]:
    """Names, values and sources of a setting of brokers, which counts first; those of other names count where it is
    set itself."""
    names = tuple(names)
    found = [(name, values[name], source) for source, values in sources for name in names if name in values]
    first = next((at for at, each in enumerate(found) if each[0] == names[0]), len(found))
    return found[first:]


def _of_broker(name: str, value: str | None, chain: list[tuple[str, str, int]]) -> Row:
    definition = settings_of("broker", _VERSION).get(name, _UNKNOWN)
    return _row(name, value, chain, definition) | {"readOnly": not definition.get("dynamic", False)}


def _row(
    name: str,
    value: str | None,
    chain: list[tuple[str, str, int]],
    definition: Definition = _UNKNOWN,
    *,
    is_shown: bool = False,
) -> Row:
    type_ = definition["type"]
    is_secret = type_ in (None, "PASSWORD") and not is_shown
    return {
        "name": name,
        "value": None if is_secret else value,
        "readOnly": False,
        "configSource": chain[0][2] if chain else _DEFAULT,
        "isSensitive": is_secret,
        "synonyms": [{"name": of, "value": None if is_secret else its, "source": source} for of, its, source in chain],
        "configType": _TYPES.get(type_ or "", 0),
        "documentation": None,
    }


def _as_printed(value: str, type_: str | None) -> str:
    """Return a value as ``ConfigDef.convertToString`` prints it."""
    match type_:
        case "BOOLEAN":
            return value.strip().lower()
        case "LIST":
            return ",".join(each.strip() for each in value.split(","))
        case "DOUBLE":
            with suppress(ValueError):
                return str(float(value))
        case _:
            pass
    return value.strip()


@cache
def _named(kind: SettingKind) -> dict[str, Definition]:
    """Settings that are answered also where they are not set."""
    return {name: each for name, each in settings_of(kind, _VERSION).items() if "internal" not in each}


@cache
def _defaults() -> Mapping[str, str]:
    return {name: each["default"] for name, each in settings_of("broker", _VERSION).items() if "default" in each}
