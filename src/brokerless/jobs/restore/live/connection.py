"""Connects to a running cluster through librdkafka (confluent-kafka), with the settings that Kafka's tools take.

A ``--command-config`` file is one of Java's clients. librdkafka has most of its settings by the same names; what
differs (JAAS, stores of certificates) is translated, and what cannot be is refused. No setting's value is in a message.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from brokerless.errors import ClusterError, UsageError, missing_libraries
from brokerless.log.checkpoint.meta_properties import parse_properties
from brokerless.log.storage.location import Location

TIMEOUT_S = 15.0
"""How long one question to the cluster may take."""
_POLL_S = 0.1
_SILENT = logging.Logger("librdkafka")
"""What librdkafka would write to stderr is in the errors that are raised."""
_SILENT.addHandler(logging.NullHandler())
_FILE_LIMIT = 1 << 20
_FOR_URLS = str.maketrans("+/", "-_")
_LOGIN = re.compile(r"\s*[\w.]*\.(?:Plain|Scram)LoginModule\s+required\s+(.*?);?\s*", re.DOTALL)
_OPTION = re.compile(r'(\w+)\s*=\s*"((?:[^"\\]|\\.)*)"')
_OF_JAVA = (
    "key.serializer", "value.serializer", "key.deserializer", "value.deserializer", "default.api.timeout.ms",
    "retries", "request.timeout.ms", "group.id", "bootstrap.controllers", "max.block.ms", "linger.ms", "batch.size",
    "acks", "buffer.memory", "enable.idempotence", "transactional.id", "auto.offset.reset", "isolation.level",
    "key.separator", "partitioner.class", "interceptor.classes", "metric.reporters",
)  # fmt: skip
"""Settings that say nothing of how to reach a cluster, or that a restore sets itself."""
_STORES = {"ssl.truststore.location": "ssl.ca.location", "ssl.keystore.location": "ssl.keystore.location"}


def load_config(path: str) -> dict[str, str]:
    """Return the settings in a properties file of Kafka's tools, by librdkafka's names.

    Raises UnreadableError, and :class:`UsageError` for what librdkafka has no setting for."""
    text = Location(path).read(_FILE_LIMIT).decode("latin-1")
    found = parse_properties(re.sub(r"\\\r?\n[ \t\f]*", "", text).splitlines())
    if any(not value and "." not in name for name, value in found.items()):  # which may be a password alone
        raise UsageError(f"{path}: a line is not NAME=VALUE; give a file of Kafka's clients, as client.properties")
    settings = {name: value for name, value in found.items() if name not in _OF_JAVA}
    login = settings.pop("sasl.jaas.config", None)
    if login is not None:
        settings |= _credentials(login, path)
    for name, own in _STORES.items():
        kind = settings.pop(name.replace("location", "type"), "JKS").upper()
        if name not in settings:
            continue
        location = settings.pop(name)
        expected = "PEM" if "trust" in name else "PKCS12"
        if kind == "PEM" and "key" in name:
            settings |= {"ssl.certificate.location": location, "ssl.key.location": location}
        elif kind == expected:
            settings[own] = location
        else:
            text = (
                f"librdkafka reads {expected}{' or PEM' if 'key' in name else ''}, not {kind}; convert it with keytool"
            )
            raise UsageError(f"{path}: {name}: {text}, and set {name.replace('location', 'type')}")
    settings.pop("ssl.truststore.password", None)
    if settings.get("ssl.endpoint.identification.algorithm") == "":
        settings["ssl.endpoint.identification.algorithm"] = "none"
    return settings


def _credentials(login: str, path: str) -> dict[str, str]:
    match = _LOGIN.fullmatch(login)
    options = dict(_OPTION.findall(match[1])) if match else {}
    if not {"username", "password"} <= options.keys():
        text = "only PlainLoginModule and ScramLoginModule with username and password are known here; set librdkafka's "
        raise UsageError(f"{path}: sasl.jaas.config: {text}own settings (sasl.username, sasl.password, ...)")
    plain = {name: re.sub(r"\\(.)", r"\1", value) for name, value in options.items()}
    return {"sasl.username": plain["username"], "sasl.password": plain["password"]}


def load_library() -> Any:
    """Return the module confluent_kafka. Raises :class:`UsageError` where it is not installed."""
    try:
        confluent_kafka = import_module("confluent_kafka")
        import_module("confluent_kafka.admin")
    except ImportError as error:
        raise missing_libraries("a running cluster is reached by confluent-kafka", "restore") from error
    return confluent_kafka


@dataclass(slots=True)
class ClusterConnection:
    """A cluster, and how to reach it."""

    bootstrap: str
    config: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    client_id: str = "brokerless-restore"
    cluster_id: str = ""
    brokers: tuple[int, ...] = ()
    problems: list[str] = field(default_factory=list[str])
    """The last messages of librdkafka about brokers and logins."""
    denied: str | None = None
    _admin: Any = field(default=None, repr=False)

    @property
    def admin(self) -> Any:
        return self._admin

    def settings(self, **own: object) -> dict[str, object]:
        """Return what a client is made with; ``own`` settings have ``_`` for the dots."""
        dotted = {name.replace("_", "."): value for name, value in own.items()}
        return {
            "bootstrap.servers": self.bootstrap, "client.id": self.client_id, **self.config, **dotted,
            "error_cb": self._note, "logger": _SILENT,
        }  # fmt: skip

    def open(self) -> None:
        """Asks who is there. Raises :class:`ClusterError` if nobody answers or lets us in, :class:`UsageError` for a
        setting that librdkafka does not know."""
        library = load_library()
        self._admin = self.create(lambda: library.admin.AdminClient(self.settings()))
        try:
            metadata = self.ask(lambda left: self._admin.list_topics(timeout=left))
        except ClusterError as error:
            if self.denied is not None or not _is_silence(library, error):
                raise
            advice = "see whether the address is right, and whether it needs TLS or a login (--command-config)"
            text = f"{self.bootstrap}: no broker answers here{self._last_problem()}; {advice}"
            raise ClusterError(text, has_remedy=True) from error
        self.cluster_id, self.brokers = str(metadata.cluster_id), tuple(sorted(metadata.brokers))

    def create(self, make: Callable[[], Any]) -> Any:
        """Return a client. Raises :class:`UsageError` for settings that are none."""
        library = load_library()
        try:
            return make()
        except (library.KafkaException, ValueError, TypeError) as error:
            raise UsageError(f"{self.bootstrap}: {describe(error)}; see --command-config") from error

    def ask(self, question: Callable[[float], Any]) -> Any:
        """Return the answer to a question, which is given seconds to take; it is asked again while a broker is not
        there or a leader is being elected. Raises :class:`ClusterError`."""
        library = load_library()
        give_up = time.monotonic() + TIMEOUT_S
        while True:
            try:
                return question(min(5.0, max(0.5, give_up - time.monotonic())))
            except library.KafkaException as error:
                if self._admin is not None:
                    self._admin.poll(0)
                is_passing = error.args[0].retriable() or error.args[0].code() in _passing(library)
                if self.denied is not None or not is_passing or time.monotonic() >= give_up:
                    raise self.failure(error) from error
                time.sleep(_POLL_S)

    def failure(self, error: Any) -> ClusterError:
        """Return what to raise where the cluster does not do as it should."""
        text = self.denied or describe(error)
        last = "" if self.problems and self.problems[-1] in text else self._last_problem()
        return ClusterError(f"{self.bootstrap}: {text}{last}")

    def _last_problem(self) -> str:
        """Return what librdkafka said last, without its name of the connection, in brackets."""
        return f" ({self.problems[-1].rpartition('/bootstrap: ')[2]})" if self.problems else ""

    def _note(self, error: Any) -> None:
        text = str(error.str()).partition(" (after ")[0]
        if error.code() == load_library().KafkaError._AUTHENTICATION:
            self.denied = text
        self.problems[:] = [*self.problems[-4:], text]


def topic_id_text(topic_id: object) -> str:
    """Return a topic's ID as Kafka writes it: in base64 for URLs, where librdkafka has ``+`` and ``/``."""
    return str(topic_id).translate(_FOR_URLS).rstrip("=")


def describe(error: Any) -> str:
    """Return an exception of librdkafka in its own words."""
    inner = error.args[0] if error.args else error
    return str(inner.str()) if hasattr(inner, "str") else str(inner)


def _is_silence(library: Any, error: ClusterError) -> bool:
    cause, kinds = error.__cause__, library.KafkaError
    code = cause.args[0].code() if cause is not None and cause.args else None
    return code in (kinds._TRANSPORT, kinds._TIMED_OUT, kinds._ALL_BROKERS_DOWN)


def _passing(library: Any) -> tuple[int, ...]:
    """Codes that go away while a broker starts, or a leader is elected."""
    kinds = library.KafkaError
    return (
        kinds._TRANSPORT, kinds._TIMED_OUT, kinds._ALL_BROKERS_DOWN, kinds._WAIT_COORD, kinds.LEADER_NOT_AVAILABLE,
        kinds.NOT_LEADER_FOR_PARTITION, kinds.COORDINATOR_NOT_AVAILABLE, kinds.COORDINATOR_LOAD_IN_PROGRESS,
        kinds.NOT_COORDINATOR, kinds.REQUEST_TIMED_OUT,
    )  # fmt: skip
