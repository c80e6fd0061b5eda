"""Each field of a header has its meaning."""

from __future__ import annotations

import pytest

from brokerless.explanation.field import leaves
from brokerless.explanation.files import build_batch, explain_built
from brokerless.explanation.meanings import attribute_parts, time_of
from brokerless.format import layouts

LAYOUTS = (layouts.MESSAGE_V0, layouts.MESSAGE_V1, layouts.BATCH_V2)


@pytest.mark.parametrize("magic", range(3))
def test_the_fields_of_a_header_are_those_of_the_layout_and_each_is_explained(magic: int) -> None:
    (entry,) = explain_built(build_batch(magic, "none", [(0, b"key", b"value")])).fields
    layout = LAYOUTS[magic]
    header = entry.children[: len(layout.names or ())]
    assert [(each.name, each.position, each.length) for each in header] == [
        (name, layouts.position_of(layout, name), layout[name].itemsize) for name in layout.names or ()
    ]
    assert all(each.note or each.parts for each in header)


def test_bits_of_attributes_have_names() -> None:
    parts = {each.name: each.value for each in attribute_parts(0b0111_1100, layouts.MAGIC_V2)}
    assert parts == {
        "compression": "zstd",
        "timestampType": "LogAppendTime",
        "isTransactional": True,
        "isControl": True,
        "hasDeleteHorizon": True,
        "unused": 0,
    }
    assert [each.name for each in attribute_parts(-1, layouts.MAGIC_V0)] == ["compression", "unused"]
    assert attribute_parts(5, layouts.MAGIC_V1)[0].value == "unknown compression type id 5"


@pytest.mark.parametrize(
    ("timestamp", "text"), [(-1, "none"), (0, "1970-01-01T00:00:00.000Z"), (-(2**63), "no time"), (2**63 - 1, None)]
)
def test_any_number_is_a_time_or_none(timestamp: int, text: str | None) -> None:
    assert time_of(timestamp) == text if text else time_of(timestamp).endswith("Z")


def test_a_wrong_checksum_is_shown_with_the_right_one() -> None:
    data = bytearray(build_batch(2, "none", [(0, b"key", b"value")]))
    data[-2] ^= 1
    fields = dict(leaves(explain_built(bytes(data)).fields))
    crc = fields["batch.crc"]
    data[17:21] = int(str(crc.expected).partition(",")[0], 16).to_bytes(4, "big")
    assert dict(leaves(explain_built(bytes(data)).fields))["batch.crc"].note.endswith("matches")


@pytest.mark.parametrize(("magic", "at", "codec"), [(0, 17, 5), (1, 17, 4), (2, 22, 5)])
def test_a_codec_that_a_format_does_not_have_is_named_in_one_way(magic: int, at: int, codec: int) -> None:
    data = bytearray(build_batch(magic, "none", [(0, b"key", b"value")]))
    data[at] |= codec
    problems = {each.expected for path, each in explain_built(bytes(data)).problems() if not path.endswith("crc")}
    formats = "zstd, which v2 has" if magic == 2 else "lz4, which v0 and v1 have"
    (expected,) = problems
    assert expected is not None
    assert expected.startswith("a codec of gzip, snappy, lz4")
    assert expected.endswith(formats)
