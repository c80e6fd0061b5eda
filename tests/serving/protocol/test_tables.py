from __future__ import annotations

from pathlib import Path

import pytest
from scripts.generate_message_layouts import REQUESTS_TARGET, generate_requests

from brokerless.format.messages.reader import UnreadableMessageError
from brokerless.format.messages.writer import encode
from brokerless.serving.protocol.tables import MOST_ELEMENTS, apis, decode_body, decode_head

FETCH, METADATA, API_VERSIONS = 1, 3, 18


def test_the_tables_are_kafkas_own(kafka_jars: Path) -> None:
    assert REQUESTS_TARGET.read_text() == generate_requests(kafka_jars)


def test_a_head_of_a_flexible_version_has_tags() -> None:
    name = b"\x00\x03any"
    plain = decode_head(b"\x00\x03\x00\x08\x00\x00\x00\x07" + name + b"body")
    assert (plain.key, plain.version, plain.correlation_id, plain.client_id, plain.body_at) == (3, 8, 7, "any", 13)
    flexible = decode_head(b"\x00\x03\x00\x09\x00\x00\x00\x07" + name + b"\x01\x05\x02xy" + b"body")
    assert flexible.body_at == 18
    assert decode_head(b"\x00\x63\x00\x00\x00\x00\x00\x01\xff\xff").client_id is None


@pytest.mark.parametrize(
    "data", [b"", b"\x00", b"\x00\x03\x00\x08\x00\x00\x00\x07\x7f\xff", b"\x00\x12\x00\x03\x00\x00\x00\x07\xff\xff\xff"]
)
def test_what_is_no_head_is_refused(data: bytes) -> None:
    with pytest.raises(UnreadableMessageError):
        decode_head(data)


def test_a_request_has_a_bounded_number_of_elements() -> None:
    api = apis()[METADATA]
    head = decode_head(b"\x00\x03\x00\x00\x00\x00\x00\x07\xff\xff")
    names = [{"name": "x"}] * 10
    data = bytes(head.body_at) + encode(api.request, 0, {"topics": names})
    assert decode_body(api, head, data)["topics"] == names
    claims = bytes(head.body_at) + (MOST_ELEMENTS + 1).to_bytes(4, "big") + bytes(4 * MOST_ELEMENTS)
    with pytest.raises(UnreadableMessageError, match="more than there can be"):
        decode_body(api, head, claims)
