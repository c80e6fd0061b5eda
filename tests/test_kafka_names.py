"""Names of ACLs' codes are those of Kafka's own classes."""

from __future__ import annotations

from pathlib import Path

from brokerless.kafka_names import ACL_NAMES
from tests.kafka.jars import check, run


def test_the_names_of_codes_in_acls_are_kafkas(kafka_jars: Path) -> None:
    lines = check(run("AclNames", helper=True)).decode().splitlines()
    ours = [f"{field} {code} {name}" for field, names in ACL_NAMES.items() for code, name in enumerate(names)]
    assert ours == lines
