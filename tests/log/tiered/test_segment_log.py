"""What a manifest says of its segment's end is looked at where it would let one segment replace another."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.log.tiered import copy_of, key_pairs, rows_of

import brokerless
from brokerless import Finding, Kind


@pytest.mark.parametrize("name", ["plain", "compressed", "encrypted"])
@pytest.mark.parametrize("added", [3, 40, 1 << 40])
def test_an_end_that_is_too_far_hides_no_other_segment(name: str, added: int, tmp_path: Path) -> None:
    bucket = copy_of(name, tmp_path / "bucket")
    whole = rows_of(brokerless.open(bucket, key_pairs=key_pairs()))
    manifest = next(
        each for directory in sorted(bucket.glob("*/*")) for each in sorted(directory.glob("*.rsm-manifest"))[1:2]
    )
    text = manifest.read_text()
    end = int(re.findall(r'"endOffset":(\d+)', text)[0])
    manifest.write_text(text.replace(f'"endOffset":{end}', f'"endOffset":{end + added}'))
    bucket = bucket.rename(tmp_path / "changed")
    found: list[Finding] = []
    assert rows_of(brokerless.open(bucket, key_pairs=key_pairs()), found) == whole
    (finding,) = [each for each in found if each.severity == "error"]
    assert (finding.kind, finding.expected, finding.found) == (
        Kind.REMOTE_MANIFEST_INVALID,
        f"endOffset {end}",
        str(end + added),
    )
