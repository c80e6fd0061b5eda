"""Explained fields as JSON: the lines of a batch make up all of it."""

from __future__ import annotations

import json
from typing import Any

from tests.golden import case, cases

from brokerless.explanation.files import build_batch, explain, explain_built
from brokerless.views.explain.json_lines import json_lines

KEYS = ["file", "batchPosition", "position", "length", "name", "value", "note", "path", "bytes", "share", "expected"]


def check(lines: list[dict[str, Any]], start: int, size: int) -> None:
    assert [line["position"] for line in lines] == [
        start + sum(line["length"] for line in lines[:index]) for index in range(len(lines))
    ]
    assert sum(line["length"] for line in lines) == size
    assert abs(sum(line["share"] for line in lines) - 1) < 1e-3
    for line in lines:
        assert len(bytes.fromhex(line["bytes"])) == line["length"]
        if "inflated" in line:
            check(line["inflated"]["fields"], 0, line["inflated"]["sizeInBytes"])


def test_the_fields_of_a_batch_are_lines_without_a_gap() -> None:
    for each in cases("articles", "formats"):
        explained = explain(each.log, records=5)
        lines: list[dict[str, Any]] = json.loads(json.dumps(list(json_lines(explained))))
        for start in {line["batchPosition"] for line in lines}:
            of_batch = [line for line in lines if line["batchPosition"] == start]
            check(of_batch, start, sum(line["length"] for line in of_batch))
        assert all(list(line)[: len(KEYS)] == KEYS for line in lines)
        assert {line["file"] for line in lines} == {str(each.log)}


def test_what_could_not_be_read_is_a_line_of_its_batch() -> None:
    log = case("damaged/tail-cut-v2-none-72").log
    size = log.stat().st_size
    lines: list[Any] = list(json_lines(explain(log, position=size - 1)))
    check(lines, size - 72, 72)
    assert {line["batchPosition"] for line in lines} == {size - 72}
    assert lines[-1]["expected"] == "53 bytes of a record; 10 left"


def test_values_are_as_cat_has_them_and_flags_have_names() -> None:
    explained = explain_built(build_batch(2, "none", [(0, b"\xff\xfe", "ü".encode()), (0, None, b"")]))
    by_path = {line["path"]: line for line in json_lines(explained)}
    assert by_path["batch.record[0].key"]["value"] == {"base64": "//4="}
    assert by_path["batch.record[0].value"]["value"] == "ü"
    assert by_path["batch.record[1].key_length"]["value"] == -1
    assert by_path["batch.attributes"]["parts"][3] == {"bits": "5", "name": "isControl", "value": False}
    assert by_path["batch.base_offset"]["file"] is None


def test_what_is_inside_a_payload_is_in_its_line() -> None:
    lines = list(json_lines(explain(case("formats/v2-lz4-create").log, records=1)))
    payload: Any = next(line for line in lines if line["name"] == "payload")
    assert payload["inflated"]["codec"] == "lz4"
    assert payload["inflated"]["fields"][0]["path"] == "batch.payload.record[0].length"
    assert not any("record" in str(line["path"]) for line in lines)


def test_files_that_are_no_logs_have_no_batches() -> None:
    index = next(case("specials/segment-v2").path.glob("*.timeindex"))
    lines: list[Any] = list(json_lines(explain(index)))
    check(lines, 0, index.stat().st_size)
    assert {line["batchPosition"] for line in lines} == {None}
