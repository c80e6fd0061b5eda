"""``size`` and ``explain`` of a log and a partition are those of the commands."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import brokerless
from brokerless.cli import main
from brokerless.explanation.files import build_batch, explain_built
from brokerless.jobs.size.choices import Choice
from brokerless.views.explain.json_lines import json_lines

DEMO = Path(__file__).parents[2] / "demo" / "data"


def printed(capfd: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, object]]:
    assert main([*arguments, "--json"]) == 0
    return [json.loads(line) for line in capfd.readouterr().out.splitlines()]


def test_sizes_are_those_of_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    options = ("--format", "v2", "--codec", "zstd", "--codec", "none", "--level", "5", "--batch-size", "16384")
    sizes = brokerless.open(DEMO).size(
        message_formats=[2], codecs=["zstd", "none"], levels=[5], batch_sizes=[16384], full=True
    )
    lines = printed(capfd, "size", str(DEMO), "--full", *options)
    of_topics = [line for line in lines if line["topic"] is not None]
    assert [line for topic in sizes for line in topic.as_dicts()] == of_topics
    partition = brokerless.open(DEMO).partition("orders", 1)
    (size,) = partition.size(codecs=["lz4"], batch_records=[10], message_formats=[2], sample=0.2)
    arguments = ("--codec", "lz4", "--format", "v2", "--batch-records", "10", "--sample", "20%")
    assert size.as_dicts() == printed(capfd, "size", partition.path, *arguments)
    assert size.sizes.keys() == {Choice(2, "lz4", batch_records=10)}


def test_the_best_choice_is_what_convert_takes(tmp_path: Path) -> None:
    users = brokerless.open(DEMO).partition("users", 0)
    (size,) = users.size(full=True, codecs=["zstd", "lz4"], message_formats=[2], batch_sizes=[4096, 65536])
    best = size.best
    assert best is not None
    assert best.batch_bytes is not None
    (result,) = users.convert(
        tmp_path, message_format=best.magic, codec=best.codec, level=best.level, batch_size=best.batch_bytes
    )
    assert result.totals.bytes_out == size.sizes[best].bytes == min(each.bytes for each in size.sizes.values())


def test_what_cannot_be_compared_is_refused() -> None:
    log = brokerless.open(DEMO)
    with pytest.raises(brokerless.UsageError, match="nothing to compare"):
        log.size(message_formats=[0], codecs=["zstd"])
    with pytest.raises(brokerless.UsageError, match="exclude each other"):
        log.size(full=True, sample=0.1)


@pytest.mark.parametrize("offset", [None, 0, 700, 1264])
def test_the_batch_of_an_offset_is_explained_in_its_segment(
    offset: int | None, capfd: pytest.CaptureFixture[str]
) -> None:
    partition = brokerless.open(DEMO).partition("orders", 0)
    explained = partition.explain(offset=offset, records=1)
    starts = [each.base_offset for each in partition.paths[0].segments if each.base_offset <= (offset or 0)]
    file = str(DEMO / "orders-0" / f"{starts[-1]:020}.log")
    assert explained.file == file
    more = () if offset is None else ("--offset", str(offset))
    ours = [json.loads(json.dumps(line)) for line in json_lines(explained)]
    assert ours == printed(capfd, "explain", file, "--records", "1", *more)


def test_after_the_last_batch_of_a_segment_the_next_one_is_explained(tmp_path: Path) -> None:
    shutil.copytree(DEMO / "orders-0", tmp_path / "orders-0")
    first, second, *_ = sorted((tmp_path / "orders-0").glob("*.log"))
    (first.with_suffix(".index")).unlink()
    batches = brokerless.open(first).batches(["position", "baseOffset"]).read_all().to_pylist()
    first.write_bytes(first.read_bytes()[: batches[-1]["position"]])
    (partition,) = brokerless.open(tmp_path / "orders-0").partitions
    assert partition.explain(offset=batches[-1]["baseOffset"]).file == str(second)
    with pytest.raises(brokerless.UnreadableError, match="no batch has offset 99999"):
        partition.explain(offset=99999)


def test_notebooks_show_tables() -> None:
    partition = brokerless.open(DEMO).partition("users", 0)
    text = partition.explain(records=1)._repr_html_()
    assert text.startswith("<table><caption>")
    assert '<td style="text-align: left">batch.base_offset</td>' in text
    (size,) = partition.size(codecs=["none"], message_formats=[2], batch_sizes=[16384])
    assert "; first what is there now</caption>" in size._repr_html_()
    assert f"{size.bytes:,}" in size._repr_html_()


def test_hostile_values_are_text_in_notebooks(tmp_path: Path) -> None:
    html = explain_built(build_batch(2, "none", [(0, b"<script>", b"\xff\x1b[2J" * 300)]))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "\x1b" not in html
    assert len(html) < 20_000
