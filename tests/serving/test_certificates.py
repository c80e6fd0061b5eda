"""Clients are who their certificates say: Java's own classes write their names, and a broker applies its ACLs."""

from __future__ import annotations

import random
import shutil
import socket
import ssl
from base64 import b64decode, b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
from cryptography import x509
from cryptography.x509 import NameOID
from cryptography.x509.name import _ASN1Type  # pyright: ignore[reportPrivateUsage]

import brokerless
from brokerless.errors import UsageError
from brokerless.serving.certificates import DEFAULT, MappingRules, NotReadError, name_of, parse_rules, subject_of
from tests.kafka.broker import KafkaBroker, free_ports
from tests.kafka.jars import check, run
from tests.kafka.producers import Record, produce_confluent
from tests.serving.authority import DAY, NOW, Authority, name
from tests.serving.differential import PASSWORD, USER, acl_of, add_users, copy_of
from tests.serving.test_clients import DEMO, by_librdkafka
from tests.serving.test_connection import answer, framed

NAMED = ["2.5.4.3", "2.5.4.6", "2.5.4.7", "2.5.4.8", "2.5.4.9", "2.5.4.10", "2.5.4.11"]
TYPES = [*NAMED, "0.9.2342.19200300.100.1.1", "0.9.2342.19200300.100.1.25", "2.5.4.4", "2.5.4.5", "2.5.4.42", "2.999.1",
         "1.2.840.113549.1.9.1", "1.3.6.1.4.1.311.60.2.1.3"]  # fmt: skip
UTF8, PRINTABLE, TELETEX, IA5, GENERAL, BMP, UNIVERSAL, INTEGER, OCTETS = 12, 19, 20, 22, 27, 30, 28, 2, 4
LETTERS = "ab Z09',=+<>#;\"\\\r\n\0\t()-./:?_@é漢😀*$"


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    long = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(long))) + long + content


def oid(text: str) -> bytes:
    first, second, *others = map(int, text.split("."))
    content = bytearray()
    for number in (40 * first + second, *others):
        groups = [number >> shift & 0x7F | 0x80 for shift in range(28, -7, -7)]
        content += bytes(groups[next((at for at, each in enumerate(groups[:-1]) if each > 0x80), 4) :])
        content[-1] &= 0x7F
    return der(6, bytes(content))


def subject(*parts: list[tuple[str, int, bytes]]) -> bytes:
    pairs = [[der(0x30, oid(type_) + der(tag, value)) for type_, tag, value in part] for part in parts]
    return der(0x30, b"".join(der(0x31, b"".join(each)) for each in pairs))


def random_subjects(count: int) -> Iterator[bytes]:
    chosen = random.Random(11)

    def attribute() -> tuple[str, int, bytes]:
        tag = chosen.choice([UTF8, UTF8, UTF8, PRINTABLE, TELETEX, IA5, GENERAL, BMP, UNIVERSAL, INTEGER, OCTETS])
        text = "".join(chosen.choice(LETTERS) for _ in range(chosen.choice([0, 1, 3, 9, 200])))
        value = text.encode({BMP: "utf-16-be", UNIVERSAL: "utf-32-be"}.get(tag, "utf-8"))
        return chosen.choice(TYPES), tag, bytes([chosen.randrange(1, 127)]) if tag == INTEGER else value

    for _ in range(count):
        yield subject(
            *([attribute() for _ in range(chosen.choice([1, 1, 1, 2, 3]))] for _ in range(chosen.randrange(5)))
        )


def by_kafka(subjects: list[bytes], rules: list[str]) -> list[tuple[str | None, str | None]]:
    """The names that Java writes, and what Kafka's rules make of them; None for what is refused."""

    def text(word: str) -> str | None:
        return None if word == "-" else b64decode(word[1:]).decode()

    lines = (
        f"{b64encode(one).decode()} {b64encode(rule.encode()).decode()}"
        for one, rule in zip(subjects, rules, strict=True)
    )
    printed = check(run("PrincipalNames", helper=True, stdin="\n".join(lines).encode())).decode().splitlines()
    return [(text(one), text(other)) for one, other in (line.split(" ") for line in printed)]


def test_names_are_those_that_java_writes(kafka_jars: Path) -> None:
    subjects = list(random_subjects(2000))
    assert [name_of(each) for each in subjects] == [one for one, _ in by_kafka(subjects, [DEFAULT] * len(subjects))]


ALICE = subject(
    [("2.5.4.6", PRINTABLE, b"DE")],
    [("2.5.4.10", UTF8, b"Ex, Inc")],
    [("2.5.4.11", UTF8, b"Dev")],
    [("2.5.4.3", UTF8, b"Alice Smith"), ("0.9.2342.19200300.100.1.1", UTF8, b"a1")],
)


@pytest.mark.parametrize(
    "rules",
    [
        "DEFAULT",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,DEFAULT",
        "RULE:^CN=(.*?)[+,].*$/$1/",
        "RULE:^CN=(.*?)[+,].*$/$1@x/L , RULE:.*/x/",
        "RULE:.*/$0/U",
        r"RULE:^.*UID=(\w+),.*/$1\/$1\$/",
        "RULE:(C)(N)(=)(.*)/$12$3-$44/U",
        "RULE:.*,C=(de|DE)/$1/L,RULE:x/y/",
        "RULE:.*OU=([^,]+).*/$1/L  ,DEFAULT,",
        r"RULE:^.*O=(.*),C.*$/\$1-$1/U",
        "RULE:(.*?)(, )?(.*)/$3$2$1/",
        "RULE:.*/x/",
    ],
)
def test_rules_map_names_as_in_kafka(kafka_jars: Path, rules: str) -> None:
    ((_, user),) = by_kafka([ALICE], [rules])
    assert parse_rules(rules).map(name_of(ALICE)) == user
    assert user is not None


def test_a_name_without_a_rule_is_refused(kafka_jars: Path) -> None:
    assert by_kafka([ALICE], ["RULE:a/b/"])[0][1] is None
    with pytest.raises(NotReadError):
        parse_rules("RULE:a/b/").map(name_of(ALICE))
    with pytest.raises(NotReadError):  # a dot of Java does not match it
        parse_rules("RULE:CN=(.*)/$1/").map("CN=a\rb")
    assert MappingRules().map("CN=a\rb") == "CN=a\rb"


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        ("", "nobody would be a user"),
        ("nothing", "is no rule"),
        ("RULE:CN=(.*)", "is no rule"),
        ("RULE:CN/x/Lq", "is no rule"),
        ("DEFAULT,nothing", "is no rule"),
        ("RULE:CN=(.*)/$/", r"a \$ is for a group"),
        ("RULE:CN=(.*)/$2/", "has no group 2"),
        ("RULE:(/x/", "cannot be used here"),
        ("RULE:(?<n>.*)/x/", "cannot be used here"),
        (r"RULE:\p{L}+.*/x/", "cannot be used here"),
        ("RULE:[a-z&&[b]]*/x/", "cannot be used here"),
    ],
)
def test_rules_that_are_none_or_not_the_same_in_python(rules: str, text: str) -> None:
    with pytest.raises(UsageError, match=text):
        parse_rules(rules)


@pytest.mark.parametrize(
    "data",
    [b"", b"\x30", b"\x30\x05\x00", b"\x30\x80\x00\x00", b"\x30\x00", b"\x31\x00", der(0x30, der(0x30, b"")),
     der(0x30, der(0x30, b"\x02\x01\x01" * 4)), der(0x30, der(0x30, b"\x02\x01\x01" * 5))],
)  # fmt: skip
def test_what_is_no_certificate_is_refused(data: bytes) -> None:
    with pytest.raises(NotReadError):
        subject_of(data)


SUBJECTS = {
    "plain": name((NameOID.COMMON_NAME, "plain"), (NameOID.ORGANIZATIONAL_UNIT_NAME, "Unit")),
    "escaped": name((NameOID.COUNTRY_NAME, "DE"), (NameOID.COMMON_NAME, ' a,b+"c"\\<#;= ')),
    "letters": name((NameOID.ORGANIZATION_NAME, "Müller & Söhne 漢字"), (NameOID.COMMON_NAME, "😀")),
    "several": x509.Name(
        [
            x509.RelativeDistinguishedName([x509.NameAttribute(NameOID.COMMON_NAME, "a")]),
            x509.RelativeDistinguishedName(
                [x509.NameAttribute(NameOID.COMMON_NAME, "b"), x509.NameAttribute(NameOID.USER_ID, "c")]
            ),
        ]
    ),
    "address": x509.Name(
        [
            x509.NameAttribute(NameOID.EMAIL_ADDRESS, "a@b.example", _ASN1Type.IA5String),
            x509.NameAttribute(NameOID.COMMON_NAME, "address"),
        ]
    ),
    "unknown": name((x509.ObjectIdentifier("1.3.6.1.4.1.99999.1"), "any"), (NameOID.SURNAME, "x")),
    "nobody": name((NameOID.COMMON_NAME, "nobody")),
    "nothing": x509.Name([]),
}
"""Of clients; each but the last two has a topic of its name."""
OWNERS = list(SUBJECTS)[:-2]
RULES = "RULE:^CN=(.*?),.*$/$1/U,RULE:^OU=(.*),CN=(.*)$/$2-$1/L"


@dataclass
class Pair:
    """Addresses: of the broker by certificates, with rules, and by logins as well; and the copy of its directory."""

    authority: Authority
    clients: dict[str, Path]
    plain: str
    mapped: str
    logins: str
    copy: Path


@pytest.fixture(scope="module")
def pair(kafka_jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    directory = tmp_path_factory.mktemp("certificates")
    authority = Authority(directory)
    server = authority.issue("server.pem", name((NameOID.COMMON_NAME, "server")))
    clients = {each: authority.issue(f"{each}-client.pem", SUBJECTS[each]) for each in SUBJECTS}
    with free_ports(3) as ports:
        addresses = dict(zip(("BYNAME", "MAPPED", "LOGINS"), (f"127.0.0.1:{each}" for each in ports), strict=True))
    broker = KafkaBroker(directory / "broker")
    listen(broker, addresses, authority, server)
    with broker:
        add_users(broker)
        for owner in (*OWNERS, "all", "denied"):
            broker.create_topic(owner)
            produce_confluent(broker, owner, [Record(b"k", owner.encode())], "none", "none")
        add_acls(broker)
        copy = copy_of(broker, directory / "copy")
        yield Pair(authority, clients, addresses["BYNAME"], addresses["MAPPED"], addresses["LOGINS"], copy)
    shutil.rmtree(copy)


def listen(broker: KafkaBroker, addresses: dict[str, str], authority: Authority, server: Path) -> None:
    lines = broker.properties.read_text().splitlines()
    settings = dict(line.partition("=")[::2] for line in lines)
    for key in ("listeners", "advertised.listeners"):
        settings[key] += "".join(f",{each}://{address}" for each, address in addresses.items())
    settings["listener.security.protocol.map"] += ",BYNAME:SSL,MAPPED:SSL,LOGINS:SASL_SSL"
    settings["inter.broker.listener.name"] = "PLAINTEXT"
    settings["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    settings["super.users"] = "User:ANONYMOUS"
    settings["ssl.keystore.type"] = settings["ssl.truststore.type"] = "PEM"
    settings["ssl.keystore.location"], settings["ssl.truststore.location"] = str(server), str(authority.ca)
    for each in addresses:
        settings[f"listener.name.{each.lower()}.ssl.client.auth"] = "required"
    settings["listener.name.mapped.ssl.principal.mapping.rules"] = RULES.replace("\\", "\\\\")
    settings["sasl.enabled.mechanisms"] = "SCRAM-SHA-256"
    module = "org.apache.kafka.common.security.scram.ScramLoginModule"
    settings["listener.name.logins.scram-sha-256.sasl.jaas.config"] = f"{module} required;"
    broker.properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))


def add_acls(broker: KafkaBroker) -> None:
    """Each owner reads its topic, and all read one but who is denied it; names of users as our reader has them."""
    read = AclOperation.READ
    users = {each: f"User:{name_of(SUBJECTS[each].public_bytes())}" for each in SUBJECTS}
    acls = [acl_of(ResourceType.TOPIC, each, users[each], read) for each in OWNERS]
    acls += [acl_of(ResourceType.TOPIC, each, "User:*", read) for each in ("all", "denied")]
    acls += [acl_of(ResourceType.TOPIC, "denied", users[each], AclOperation.ALL, is_denied=True) for each in OWNERS[:3]]
    acls += [acl_of(ResourceType.TOPIC, "plain", f"User:{each}", read) for each in ("unit-plain", "plain-unit", USER)]
    acls += [acl_of(ResourceType.TOPIC, "several", "User:B+UID=C", read)]
    acls += [acl_of(ResourceType.GROUP, "*", "User:*", read)]  # librdkafka looks for the coordinator of its own
    admin = broker.admin()
    for future in admin.create_acls(acls).values():
        future.result(30)


def tls_of(client: Path, authority: Authority) -> dict[str, str]:
    return {
        "security_protocol": "SSL",
        "ssl_ca_location": str(authority.ca),
        "ssl_certificate_location": str(client),
        "ssl_key_location": str(client),
    }


def readable(address: str, client: Path, authority: Authority, **others: str) -> dict[str, list[bytes]]:
    """The topics that a client sees, with the values that it reads."""
    settings = tls_of(client, authority) | others
    conf = {key.replace("_", "."): value for key, value in settings.items()}
    known = AdminClient({"bootstrap.servers": address, "log_level": 0, **conf}).list_topics(timeout=10).topics
    found = by_librdkafka(address, [(each, 0) for each in known], **settings)
    return {topic: [record[3] for record in records] for (topic, _), records in found.items()}


@pytest.mark.xdist_group("certificates")
def test_acls_of_certificates_are_applied_as_by_a_broker(pair: Pair) -> None:
    with brokerless.serve(pair.copy, **served(pair)) as server:
        for each in SUBJECTS:
            client = pair.clients[each]
            theirs = readable(pair.plain, client, pair.authority)
            assert readable(server.bootstrap_servers, client, pair.authority) == theirs, each
            expected = {"all", *([] if each in OWNERS[:3] else ["denied"]), *([each] if each in OWNERS else [])}
            assert theirs == {topic: [topic.encode()] for topic in expected}, each


@pytest.mark.xdist_group("certificates")
def test_rules_make_users_as_those_of_a_broker(pair: Pair) -> None:
    with brokerless.serve(pair.copy, **served(pair), principal_mapping_rules=RULES) as server:
        for each in OWNERS:
            outcomes = [
                outcome(address, pair.clients[each], pair.authority)
                for address in (pair.mapped, server.bootstrap_servers)
            ]
            assert outcomes[0] == outcomes[1], each
        assert "plain" in readable(server.bootstrap_servers, pair.clients["plain"], pair.authority)


def outcome(address: str, client: Path | None, authority: Authority, **others: str) -> dict[str, list[bytes]] | None:
    """What a client reads; None where it is kept out."""
    context = ssl.create_default_context(cafile=str(authority.ca))
    if client is not None:
        context.load_cert_chain(client)
    host, port = address.split(":")
    try:
        with (
            socket.create_connection((host, int(port)), 10) as connection,
            context.wrap_socket(connection, server_hostname=host) as wrapped,
        ):
            wrapped.sendall(framed("ApiVersions", 0, {}))
            answer(wrapped)
    except TimeoutError:
        raise
    except (OSError, EOFError):
        return None
    return None if client is None else readable(address, client, authority, **others)


@pytest.mark.xdist_group("certificates")
def test_who_has_no_certificate_of_the_authority_is_kept_out(pair: Pair, tmp_path: Path) -> None:
    other = Authority(tmp_path, "other").issue("other-client.pem", SUBJECTS["plain"])
    old = pair.authority.issue("old-client.pem", SUBJECTS["plain"], NOW - DAY)
    with brokerless.serve(pair.copy, **served(pair)) as server:
        for address in (pair.plain, server.bootstrap_servers):
            assert outcome(address, pair.clients["plain"], pair.authority) is not None
            assert [outcome(address, each, pair.authority) for each in (other, old, None)] == [None, None, None]


@pytest.mark.xdist_group("certificates")
def test_with_logins_these_name_the_user(pair: Pair, tmp_path: Path) -> None:
    login = {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "sasl_username": USER}
    client = pair.clients["escaped"]
    other = Authority(tmp_path, "other").issue("other-client.pem", SUBJECTS["plain"])
    with brokerless.serve(pair.copy, **served(pair), cluster_users=True) as server:
        found = [
            [
                outcome(address, client, pair.authority, **login, sasl_password=PASSWORD),
                outcome(address, other, pair.authority, **login, sasl_password=PASSWORD),
                outcome(address, None, pair.authority),
            ]
            for address in (pair.logins, server.bootstrap_servers)
        ]
    assert found[0] == found[1]
    assert found[0] == [{each: [each.encode()] for each in ("plain", "all", "denied")}, None, None]


def served(pair: Pair) -> dict[str, str]:
    server = str(pair.authority.directory / "server.pem")
    return {"tls_cert": server, "tls_client_ca": str(pair.authority.ca)}


@pytest.mark.xdist_group("certificates")
def test_super_users_and_what_no_acl_is_about(pair: Pair) -> None:
    client = pair.clients["unknown"]
    user = name_of(SUBJECTS["unknown"].public_bytes())
    with brokerless.serve(pair.copy, **served(pair), super_users=[user]) as server:
        assert set(OWNERS) < set(readable(server.bootstrap_servers, client, pair.authority))
        assert "plain" not in readable(server.bootstrap_servers, pair.clients["several"], pair.authority)


def test_without_acls_whoever_has_a_certificate_reads_everything(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server.pem", name((NameOID.COMMON_NAME, "server")))
    client = authority.issue("client.pem", SUBJECTS["escaped"])
    with brokerless.serve(DEMO, tls_cert=server, tls_client_ca=authority.ca) as serving:
        conf = {key.replace("_", "."): value for key, value in tls_of(client, authority).items()}
        admin = AdminClient({"bootstrap.servers": serving.bootstrap_servers, "log_level": 0, **conf})
        assert len(admin.list_topics(timeout=10).topics) == 5


def test_wrong_options(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    server = authority.issue("server.pem", name((NameOID.COMMON_NAME, "server")))
    (tmp_path / "users").write_text("alice:secret\n")
    for options, text in (
        ({"tls_client_ca": authority.ca}, "tls_client_ca= needs tls_cert="),
        ({"tls_cert": server, "principal_mapping_rules": DEFAULT}, "principal_mapping_rules= needs tls_client_ca="),
        ({"tls_cert": server, "tls_client_ca": tmp_path / "users"}, "has no certificates: there is none in PEM"),
        ({"tls_cert": server, "tls_client_ca": tmp_path / "none"}, "has no certificates: No such file"),
        ({"tls_cert": server, "tls_client_ca": authority.ca, "principal_mapping_rules": "x"}, "is no rule"),
        ({"tls_cert": server, "tls_client_ca": authority.ca, "users": tmp_path / "users", "super_users": ["a"]},
         "super_users= and allow_everyone_if_no_acl_found= need"),
    ):  # fmt: skip
        with pytest.raises(UsageError, match=text), brokerless.serve(DEMO, **options):
            pass
