from __future__ import annotations

import ast
import base64
import pickle
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import brokerless
from brokerless import RecordFilter
from brokerless.cli import main
from brokerless.cli.commands import COMMANDS
from brokerless.errors import UsageError
from brokerless.findings import Kind
from brokerless.text import (
    _COMMANDS,  # pyright: ignore[reportPrivateUsage]
    _OPTION,  # pyright: ignore[reportPrivateUsage]
    ShownList,
    html_table,
    java_text,
    json_bytes,
    name_options,
    named_for_commands,
    readable,
    show,
    show_name,
)
from tests.kafka.jars import check, run


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (b"orders-0", "orders-0"),
        (b"a\xffb", r"a\xffb"),
        ("grüße".encode(), "grüße"),
        ("ü".encode() + b"\xc3", r"ü\xc3"),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
def test_what_is_no_utf_8_in_a_name_is_escaped_whatever_python_takes_names_for(
    name: bytes, text: str, encoding: str
) -> None:
    assert readable(name.decode(encoding, "surrogateescape")) == text


def test_a_lone_surrogate_that_is_no_byte_is_escaped_too() -> None:
    assert readable("a\ud800b") == r"a\ud800b"


@pytest.mark.parametrize(
    ("text", "shown"),
    [("a b", "a b"), ("a\nb\x1b[31m", r"a\nb\x1b[31m"), ("\u202e", r"\u202e"), ("grüße 🦆", "grüße 🦆")],
)
def test_what_moves_the_cursor_or_does_not_show_is_escaped(text: str, shown: str) -> None:
    assert show(text) == show_name(text) == shown


def test_text_is_what_java_makes_of_it(kafka_jars: Path) -> None:
    rng = random.Random(8)
    pieces = [*(char.encode() for char in "aü€😀"), b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xa0", b"\xf0\x9f"]
    pieces += [bytes([byte]) for byte in (0x80, 0xBF, 0xC0, 0xC2, 0xE0, 0xED, 0xEF, 0xF0, 0xF4, 0xF8, 0xFF)]
    texts = [b"".join(rng.choices(pieces, k=rng.randrange(1, 7))) for _ in range(3000)]
    texts += [rng.randbytes(rng.randrange(1, 9)) for _ in range(3000)]
    stdin = b"\n".join(base64.b64encode(text) for text in texts)
    lines = check(run("DecodeUtf8", stdin=stdin, helper=True)).split()
    for text, line in zip(texts, lines, strict=True):
        assert java_text(text).encode() == base64.b64decode(line), text


def test_tables_for_notebooks_escape_all_text():
    html = html_table("<b>", ("<i>",), [("<script>",), (1234567,), (None,)])
    assert "<b>" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;" in html
    assert "1,234,567" in html
    assert "and 940 more" in html_table("many", ("n",), [(at,) for at in range(1000)])


@dataclass
class Found:
    topic: str
    partition: int
    bytes: int
    damages: tuple[int, ...] = ()


def test_a_list_has_a_line_for_each_of_the_first_items_and_is_a_table() -> None:
    items = ShownList(Found(f"<b>{number}", 0, number) for number in range(100))
    assert items == list(items)
    assert isinstance(items, list)
    lines = repr(items).splitlines()
    assert (len(lines), lines[-1]) == (21, " ... and 80 more]")
    html = items._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert html.startswith("<table><caption>Found, 100 of them</caption>")
    assert html.count("<tr>") == 62
    assert "and 40 more" in html
    assert "<b>" not in html
    assert '<td style="text-align: left">&lt;b&gt;3-0</td><td style="text-align: right">3</td>' in html
    assert repr(ShownList([])) == "[]"
    assert "nothing" in ShownList([])._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert pickle.loads(pickle.dumps(ShownList([1, 2]))) == [1, 2]


@pytest.mark.parametrize(
    ("written", "named"),
    [
        ("give another directory with --offset-map", "give another directory with offset_map="),
        ("it was not given (--key-pair ID:FILE)", "it was not given (key_pairs=ID:FILE)"),
        ("it was not given (--key-pair a=FILE)", 'it was not given (key_pairs={"a": "FILE"})'),
        ("brokerless cat b --key-pair a=FILE", "brokerless cat b --key-pair a=FILE"),
        ("--where: Parser Error", "where: Parser Error"),
        ("--format v2 --isolation read_committed", "message_format=v2 isolation=read_committed"),
        ("give --data copy or link", "give data=copy or link"),
        (
            "--data in-place, --topic orders --isolation read_uncommitted",
            "data=in-place, topic=orders isolation=read_uncommitted",
        ),
        ("as in --to tables; --to-the with --topic to-the-end", "as in to=tables; to_the= with topic=to-the-end"),
        ("give --append to restore after them", "give append= to restore after them"),
        ("brokerless rebuild --reset-positions writes it", "brokerless rebuild --reset-positions writes it"),
        ("add it: kafka-topics.sh --alter --topic a; then --to", "add it: kafka-topics.sh --alter --topic a; then to="),
        ("this is no state of verify --budget: x", "this is no state of verify --budget: x"),
        ("a name -- or two", "a name -- or two"),
    ],
)
def test_options_are_parameters_in_python_and_unchanged_on_the_command_line(written: str, named: str) -> None:
    assert name_options(written) == named
    with named_for_commands():
        assert name_options(written) == written


def test_every_word_after_an_option_in_a_message_is_known_as_its_value_or_as_the_sentence() -> None:
    found: set[str] = set()
    for path in Path("src/brokerless").rglob("*.py"):
        if "cli" in path.parts:  # where options stay as they are
            continue
        for text in _texts(ast.parse(path.read_text())):
            named = (match for match in _OPTION.finditer(text) if match["value"])
            found.update(word[0] for match in named if (word := re.match(r"[a-z_-]+\b(?!=)", text[match.end() :])))
    assert found == {"copy", "iceberg", "none", "parquet", "read_uncommitted", "tables", "value"}


def _texts(tree: ast.AST) -> Iterator[str]:
    """Yields the texts of a module, with a digit for each value in them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(each.value) if isinstance(each, ast.Constant) else "0" for each in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_command_is_known_by_its_name() -> None:
    assert {*_COMMANDS.split("|")} == {*COMMANDS} - {"completion"}


def test_errors_and_findings_are_named_for_who_reads_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(UsageError, match=r"^where: ") as raised:
        RecordFilter(where="no such thing")
    assert main(["cat", "demo/data/users-0", "--where", "no such thing"]) == 2
    assert "--where: " in capsys.readouterr().err
    assert "--" not in str(raised.value)
    found = Kind.LIMIT_EXCEEDED.at("a.log", "too large; --max-batch-bytes raises it")
    assert str(found) == "a.log: too large; max_batch_bytes= raises it"


def test_a_pattern_of_a_tiered_bucket_is_named_as_a_parameter(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="remote= is for directories"):
        brokerless.open(next(Path("demo/data/users-0").glob("*.log")), remote=str(tmp_path))


def test_bytes_are_a_string_of_json_where_they_are_text() -> None:
    assert [json_bytes(each) for each in (b"key", b"\xff", None, 3)] == ["key", {"base64": "/w=="}, None, 3]
