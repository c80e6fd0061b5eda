"""A properties file of Kafka's tools as librdkafka's settings."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kafka.broker import free_ports

from brokerless.errors import ClusterError, UsageError
from brokerless.jobs.restore.live import connection
from brokerless.jobs.restore.live.connection import ClusterConnection, load_config, topic_id_text

LOGIN = 'org.apache.kafka.common.security.{}LoginModule required \\\n   username="ann" password="p w\\\\\\\\;";'


def config_of(tmp_path: Path, text: str) -> dict[str, str]:
    (tmp_path / "client.properties").write_text(text)
    return load_config(str(tmp_path / "client.properties"))


@pytest.mark.parametrize("module", ["plain.Plain", "scram.Scram"])
def test_a_login_becomes_a_name_and_a_password(tmp_path: Path, module: str) -> None:
    text = f"# of ann\nsecurity.protocol=SASL_SSL\nsasl.mechanism: PLAIN\nsasl.jaas.config={LOGIN.format(module)}\n"
    found = config_of(tmp_path, text)
    assert found == {
        "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ann", "sasl.password": "p w\\;",
    }  # fmt: skip


def test_settings_of_a_producer_that_a_restore_sets_itself_are_passed_over(tmp_path: Path) -> None:
    assert config_of(tmp_path, "acks=1\nlinger.ms=5\ngroup.id=g\nclient.dns.lookup=use_all_dns_ips\n") == {
        "client.dns.lookup": "use_all_dns_ips"
    }


def test_certificates_are_taken_in_the_forms_that_librdkafka_reads(tmp_path: Path) -> None:
    text = "ssl.truststore.type=PEM\nssl.truststore.location=/ca.pem\nssl.keystore.type=PKCS12\n"
    text += "ssl.keystore.location=/me.p12\nssl.keystore.password=secret\nssl.endpoint.identification.algorithm=\n"
    assert config_of(tmp_path, text) == {
        "ssl.ca.location": "/ca.pem", "ssl.keystore.location": "/me.p12", "ssl.keystore.password": "secret",
        "ssl.endpoint.identification.algorithm": "none",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("ssl.truststore.location=/a.jks\nssl.truststore.password=secret\n", "librdkafka reads PEM, not JKS"),
        ('sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required keyTab="secret";', "only PlainLogin"),
        ("sasl.jaas.config=secret", "only PlainLogin"),
    ],
)
def test_what_librdkafka_cannot_do_is_refused_without_secrets(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason) as raised:
        config_of(tmp_path, text)
    assert "secret" not in str(raised.value)


def test_an_unknown_setting_is_refused_by_its_name() -> None:
    with pytest.raises(UsageError, match=r"sasl\.nothing"):
        ClusterConnection("127.0.0.1:1", {"sasl.nothing": "secret"}).open()


def test_nobody_who_answers_is_an_error_within_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.5)
    with free_ports(1) as (port,):
        pass
    text = f"127.0.0.1:{port}: no broker answers here .*refused.*; see whether the address"
    with pytest.raises(ClusterError, match=text):
        ClusterConnection(f"127.0.0.1:{port}").open()


def test_a_topics_id_is_as_kafka_writes_it() -> None:
    assert topic_id_text("/gMWZAs5SgCezOPFEmwq+w==") == "_gMWZAs5SgCezOPFEmwq-w"
