"""Clients log in over TLS; the judges are librdkafka and Kafka's own consumer."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import ipaddress
import socket
from base64 import b64decode, b64encode
from collections.abc import Sequence
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

import brokerless
from brokerless.errors import UsageError
from brokerless.format.messages.reader import decode
from brokerless.internals.metadata.cluster import Cluster
from brokerless.serving.login import Credential, Login, LoginError, read_users, users_of_cluster
from brokerless.serving.source import batch_finder
from tests.cli.conftest import Run
from tests.serving.differential import LIMITED, NAMES, PASSWORD, SUPER, USER, Pair
from tests.serving.test_clients import by_librdkafka
from tests.serving.test_connection import METADATA, answer, framed

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


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN"])
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


def test_plain_is_for_tls_and_files_of_users(users: Path) -> None:
    assert Login(read_users(str(users))).mechanisms == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert "PLAIN" in Login(read_users(str(users), has_tls=True)).mechanisms


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"\0alice\0wrong", "Invalid username or password"),
        (b"\0nobody\0", "Invalid username or password"),
        (b"bob\0alice\0secret", "different from username"),
        (b"alice\0secret", "no message of PLAIN"),
        (b"\0alice\0secret\0", "no message of PLAIN"),
        (b"\0alice\0\xff", "no message of PLAIN"),
    ],
)
def test_wrong_messages_of_plain_are_refused(users: Path, message: bytes, text: str) -> None:
    login = Login(read_users(str(users), has_tls=True))
    assert login.begin("PLAIN")
    with pytest.raises(LoginError, match=text):
        login.step(message)
    assert login.user is None
    assert login.step(b"alice\0alice\0secret") == b""
    assert login.user == "alice"


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


HANDSHAKE, OLD_HANDSHAKE, FIRST, FINAL, ASK = "handshake", "old handshake", f"n,,n={USER},r=", "final", "ask"


class Scram:
    """A connection that logs in as it is told. ``outcome``: an error code, or that the connection was closed."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._connection = socket.create_connection((host, int(port)), 10)
        self._first, self._answer = "", b""

    def outcomes(self, steps: Sequence[str]) -> list[object]:
        with self._connection:
            return [self._outcome(each) for each in steps]

    def _outcome(self, step: str) -> object:
        name, body = "SaslAuthenticate", {"authBytes": b64encode(self._message(step)).decode()}
        version = 0 if step == OLD_HANDSHAKE else 1
        if step in (HANDSHAKE, OLD_HANDSHAKE):
            name, body = "SaslHandshake", {"mechanism": "SCRAM-SHA-256"}
        elif step == ASK:
            name, body = "ListGroups", {}
        try:
            self._connection.sendall(framed(name, version, dict(body)))
            row, _ = decode(NAMES[name].response, version, answer(self._connection), 4)
        except (EOFError, ConnectionError):
            return "closed"
        self._answer = b64decode(row.get("authBytes", ""))
        return row["errorCode"]

    def _message(self, step: str) -> bytes:
        if step in (HANDSHAKE, OLD_HANDSHAKE, ASK):
            return b""
        if step != FINAL:
            self._first = f"{step}{len(step)}nonce"
            return self._first.encode()
        nonce, salt, count = (each[2:] for each in self._answer.split(b","))
        key = hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b64decode(salt), int(count))
        key = hmac.digest(key, b"Client Key", "sha256")
        header, _, bare = self._first.partition("n=")
        final = b"c=" + b64encode(header.encode()) + b",r=" + nonce
        text = b",".join((f"n={bare}".encode(), self._answer, final))
        signature = hmac.digest(hashlib.sha256(key).digest(), text, "sha256")
        return final + b",p=" + b64encode(bytes(one ^ other for one, other in zip(key, signature, strict=True)))


@pytest.mark.xdist_group("serving")
def test_logins_go_on_and_end_as_those_of_a_broker(both: Pair) -> None:
    scripts: list[tuple[list[str], list[object]]] = [
        ([HANDSHAKE, FIRST, FINAL, FIRST], [0, 0, 0, 34]),
        ([HANDSHAKE, FIRST, FINAL, FIRST, ASK], [0, 0, 0, 34, 0]),
        ([HANDSHAKE, FIRST, FINAL, HANDSHAKE, FIRST, HANDSHAKE, ASK], [0, 0, 0, 34, 34, 34, 0]),
        ([HANDSHAKE, FIRST, FINAL, OLD_HANDSHAKE, ASK], [0, 0, 0, 34, 0]),
        ([HANDSHAKE, HANDSHAKE, FIRST], [0, 34, "closed"]),
        ([HANDSHAKE, FIRST, HANDSHAKE, FIRST], [0, 0, 34, "closed"]),
        ([HANDSHAKE, FIRST, FIRST], [0, 0, 58]),
        ([HANDSHAKE, f"n,a={USER},n={USER},r=", FINAL], [0, 0, 0]),
        ([HANDSHAKE, f"n,a={SUPER},n={USER},r=", FIRST], [0, 58, "closed"]),
        ([HANDSHAKE, f"n,a=,n={USER},r="], [0, 58]),
        ([FIRST, HANDSHAKE], ["closed", "closed"]),
    ]
    with brokerless.serve(both.copy, cluster_users=True) as server:
        for address in (both.logins, server.bootstrap_servers):
            found = [(steps, Scram(address).outcomes(steps)) for steps, _ in scripts]
            assert found == scripts, address


def test_a_cluster_without_users_is_refused() -> None:
    for cluster in (Cluster(), None):
        with pytest.raises(UsageError, match="no users with a password"):
            users_of_cluster(cluster)


@pytest.mark.xdist_group("serving")
def test_super_users_are_users_of_the_cluster(both: Pair) -> None:
    with (
        pytest.raises(UsageError, match="super_users=nobody: the cluster has no such user"),
        brokerless.serve(both.copy, cluster_users=True, super_users=["nobody"]),
    ):
        pass
    with (
        pytest.raises(UsageError, match="need cluster_users=, or tls_client_ca="),
        brokerless.serve(DEMO, super_users=["nobody"]),
    ):
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
        with pytest.raises(UsageError, match="tls_cert= and users= or tls_client_ca="), server:
            pass
    with brokerless.serve(
        DEMO, listen="0.0.0.0:0", advertise="127.0.0.1:0", users=users, tls_cert=certificate
    ) as server:
        assert server.mechanisms == ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
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
