"""Clients log in over TLS; the judges are librdkafka and Kafka's own consumer."""

from __future__ import annotations

import datetime
import ipaddress
import socket
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import brokerless
from brokerless.errors import UsageError
from brokerless.internals.metadata.cluster import Cluster
from brokerless.serving.login import Credential, Login, LoginError, read_users, users_of_cluster
from brokerless.serving.source import batch_finder
from tests.cli.conftest import Run
from tests.serving.differential import LIMITED, PASSWORD, SUPER, USER, Pair
from tests.serving.test_clients import by_librdkafka
from tests.serving.test_connection import METADATA, answer

DEMO = Path(__file__).parents[2] / "demo" / "data"


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate of 127.0.0.1 that is its own authority, and its key, in one file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "any")])
    now = datetime.datetime.now(datetime.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=True)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = tmp_path_factory.mktemp("tls") / "server.pem"
    path.with_name("ca.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    path.write_bytes(made.public_bytes(serialization.Encoding.PEM) + private)
    return path


@pytest.fixture
def users(tmp_path: Path) -> Path:
    path = tmp_path / "users"
    path.write_text("# who may read\nalice:secret\n\nbob=,:pass:word\n")
    return path


def topics(bootstrap: str, timeout: float = 10, **settings: str) -> int:
    """How many topics librdkafka sees."""
    conf = {
        "bootstrap.servers": bootstrap,
        "log_level": 0,
        **{key.replace("_", "."): settings[key] for key in settings},
    }
    return len(AdminClient(conf).list_topics(timeout=timeout).topics)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_users_of_a_file_log_in(users: Path, certificate: Path, mechanism: str) -> None:
    with brokerless.serve(DEMO, users=users, tls_cert=certificate) as server:
        tls = {"security_protocol": "SASL_SSL", "ssl_ca_location": str(certificate), "sasl_mechanism": mechanism}
        for name, password in (("alice", "secret"), ("bob=,", "pass:word")):
            found = topics(server.bootstrap_servers, **tls, sasl_username=name, sasl_password=password)
            assert found == 5
        for name, password in (("alice", "wrong"), ("nobody", "secret")):
            with pytest.raises(KafkaException):
                topics(server.bootstrap_servers, 2, **tls, sasl_username=name, sasl_password=password)
        with pytest.raises(KafkaException):
            topics(server.bootstrap_servers, 2)


def test_tls_without_logins(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with brokerless.serve(DEMO, tls_cert=certificate) as server:
        tls = {"security_protocol": "SSL", "ssl_ca_location": str(certificate)}
        assert topics(server.bootstrap_servers, **tls) == 5
        monkeypatch.setattr(batch_finder, "INLINE", 0)
        places = [("payments", 0), ("orders", 1)]
        found = by_librdkafka(server.bootstrap_servers, places, **tls)
    assert [len(found[place]) for place in places] == [1543, 1235]


def test_nothing_is_answered_before_the_login(users: Path) -> None:
    with brokerless.serve(DEMO, users=users) as server:
        host, port = server.bootstrap_servers.split(":")
        for first in (b"", bytes.fromhex("0000000a0012000000000007ffff")):
            with socket.create_connection((host, int(port)), 10) as connection:
                if first:
                    connection.sendall(first)
                    assert answer(connection)[4:6] == b"\0\0"
                connection.sendall(METADATA)
                with pytest.raises((EOFError, ConnectionError)):
                    answer(connection)


@pytest.mark.xdist_group("serving")
def test_users_of_the_dead_cluster_log_in_with_their_old_passwords(both: Pair) -> None:
    with brokerless.serve(both.copy, cluster_users=True) as server:
        settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": USER}
        assert topics(server.bootstrap_servers, **settings, sasl_password=PASSWORD) > 5
        with pytest.raises(KafkaException):
            topics(server.bootstrap_servers, 2, **settings, sasl_password="wrong")


@pytest.mark.xdist_group("serving")
def test_kafkas_consumer_logs_in(both: Pair, users: Path, certificate: Path, tmp_path: Path) -> None:
    from tests.kafka.jars import check, run

    login = "org.apache.kafka.common.security.scram.ScramLoginModule required"
    (tmp_path / "client.properties").write_text(
        "security.protocol=SASL_SSL\nsasl.mechanism=SCRAM-SHA-512\n"
        f"ssl.truststore.type=PEM\nssl.truststore.location={certificate.with_name('ca.pem')}\n"
        f'sasl.jaas.config={login} username="alice" password="secret";\n'
    )
    main = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    words = ("--topic", "users", "--from-beginning", "--max-messages", "218", "--timeout-ms", "30000")
    with brokerless.serve(DEMO, users=users, tls_cert=certificate) as server:
        config = ("--command-config", str(tmp_path / "client.properties"))
        done = run(main, "--bootstrap-server", server.bootstrap_servers, *words, *config, alone=True)
    assert len(check(done).splitlines()) == 218


def test_a_cluster_without_users_is_refused() -> None:
    for cluster in (Cluster(), None):
        with pytest.raises(UsageError, match="no users with a password"):
            users_of_cluster(cluster)


@pytest.mark.xdist_group("serving")
def test_super_users_are_users_of_the_cluster(both: Pair) -> None:
    with (
        pytest.raises(UsageError, match="--super-user nobody: the cluster has no such user"),
        brokerless.serve(both.copy, cluster_users=True, super_users=["nobody"]),
    ):
        pass
    with pytest.raises(UsageError, match="need --cluster-users"), brokerless.serve(DEMO, super_users=["nobody"]):
        pass
    settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256", "sasl_password": PASSWORD}
    with brokerless.serve(both.copy, cluster_users=True, super_users=[SUPER]) as server:
        found = [topics(server.bootstrap_servers, **settings, sasl_username=each) for each in (SUPER, *LIMITED)]
    assert found[0] >= max(found[1:])
    assert 0 < min(found[1:]) < found[0]


@pytest.mark.parametrize("text", ["", "alice", "alice:", ":secret", "alice:a\nalice:b"])
def test_wrong_files_of_users(tmp_path: Path, text: str) -> None:
    (tmp_path / "users").write_text(text)
    with pytest.raises(UsageError, match="users"):
        read_users(str(tmp_path / "users"))


def test_wrong_messages_are_refused() -> None:
    users = {("SCRAM-SHA-256", "alice"): Credential.of("secret", "SCRAM-SHA-256")}
    login = Login(users)
    with pytest.raises(LoginError):
        login.step(b"n,,n=alice,r=abc")
    assert not login.begin("PLAIN")
    assert not login.begin("SCRAM-SHA-512")
    for first in (b"", b"\0alice\0secret", b"y,,n=alice,r=abc", b"n,,n=,r=abc", b"n,,n=alice,r=", b"n,,n=\xff,r=abc"):
        assert login.begin("SCRAM-SHA-256")
        with pytest.raises(LoginError):
            login.step(first)
    for final in (
        "",
        "c=biws,r={r}",
        "c=biws,r={r},p=",
        "c=biws,r={r},p=AAAA",
        "c=biws,r=other,p=AAAA",
        "c=eSws,r={r},p=AA==",
    ):
        login = Login(users)
        assert login.begin("SCRAM-SHA-256")
        nonce = login.step(b"n,,n=alice,r=abc").split(b",")[0][2:]
        assert nonce.startswith(b"abc")
        with pytest.raises(LoginError):
            login.step(final.format(r=nonce.decode()).encode())
        assert login.user is None


def test_what_can_be_reached_needs_tls_and_logins(users: Path, certificate: Path, run: Run) -> None:
    for options in ({"users": users}, {"tls_cert": certificate}):
        server = brokerless.serve(DEMO, listen="0.0.0.0:0", **options)
        with pytest.raises(UsageError, match="--tls-cert and --users"), server:
            pass
    with brokerless.serve(
        DEMO, listen="0.0.0.0:0", advertise="127.0.0.1:0", users=users, tls_cert=certificate
    ) as server:
        assert server.mechanisms == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    for words, text in (
        (("--tls-key", certificate), "needs --tls-cert"),
        (("--tls-cert", users), "no certificate with its key: there is none in PEM; give the key with --tls-key"),
        (("--tls-cert", "/none"), "no certificate with its key"),
        (("--cluster-users",), "no users with a password of SCRAM"),
        (("--users", users, "--cluster-users"), "exclude each other"),
        (("--users", "/none"), "/none"),
    ):
        result = run("serve", DEMO, "--listen", "127.0.0.1:0", *words)
        assert result.exit_code == 2
        assert text in result.err


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Run:
    from brokerless.cli import main
    from tests.cli.conftest import Result

    def run(*arguments: object) -> Result:
        exit_code = main([str(argument) for argument in arguments])
        out, err = capfdbinary.readouterr()
        return Result(exit_code, out, err.decode())

    return run
