from __future__ import annotations

import shlex

import pytest

from brokerless.cli.commands import convert
from brokerless.cli.parser import Parser
from brokerless.format import layouts
from brokerless.jobs.size.choices import Choice, choices_of, is_too_large


def test_all_that_kafka_has_is_compared() -> None:
    choices = choices_of()
    assert len(choices) == len(set(choices))
    assert {(each.magic, each.codec) for each in choices} == {
        (magic, codec) for magic in (0, 1, 2) for codec in layouts.CODECS if magic == 2 or codec != "zstd"
    }
    packings = {(each.batch_records, each.batch_bytes) for each in choices if (each.magic, each.codec) == (2, "zstd")}
    assert packings == {
        (None, None),
        *((count, None) for count in (1, 10, 100, 1000)),
        *((None, size << 10) for size in (16, 128, 1024)),
    }
    assert [each for each in choices if (each.magic, each.codec) == (1, "none")] == [Choice(1, "none")]
    assert all(each.target.magic == each.magic for each in choices)


def test_only_what_is_requested_is_compared() -> None:
    assert choices_of([2], ["zstd", "lz4"], [3, 12, 20], [], [16384]) == [
        *(Choice(2, "lz4", level, None, 16384) for level in (3, 12)),
        *(Choice(2, "zstd", level, None, 16384) for level in (3, 12, 20)),
    ]
    assert choices_of([1], ["zstd"]) == []


@pytest.mark.parametrize("choice", choices_of([2], [], [], [], [16384, 1 << 20]), ids=str)
def test_the_command_line_is_one_that_convert_takes(choice: Choice) -> None:
    words = shlex.split(choice.command(["a dir", "b"], ["-t", "orders"]))
    assert words[:2] == ["brokerless", "convert"]
    parser = Parser(prog="convert")
    parser.add_command(convert)
    options = parser.parse_args(words[2:])
    assert (options.paths, options.topic, options.to) == (["a dir", "b"], ["orders"], "converted")
    asked = (options.message_format, options.codec, options.level, options.batch_size)
    assert asked == ("v2", choice.codec, choice.level, choice.batch_bytes)


def test_batches_that_no_broker_takes_are_not_compared() -> None:
    assert is_too_large(Choice(2, "none", batch_records=1000), 200_000)
    assert not is_too_large(Choice(2, "none", batch_records=100), 200_000)
    assert not is_too_large(Choice(2, "none", batch_bytes=16384), 200_000)
