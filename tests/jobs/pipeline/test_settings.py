"""A file of settings has the command's options; what is wrong in it is said with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from brokerless.errors import UnreadableError, UsageError
from brokerless.jobs.pipeline.settings import load_settings, make_settings

WHOLE = """\
path: [/backups/a, s3://bucket/b]   # snapshots of two brokers
to: s3://lake/kafka
topic: ["click*", orders]
exclude: clicks-test
isolation: read_committed
by-date: true
compression: snappy
file-bytes: 1GiB
value-format: json
max-batch-bytes: 200MB
verify: false
report: false
keep-snapshots: 12h
as: iceberg
catalog: prod
namespace: raw
catalog-properties: {uri: "https://rest", s3.path-style-access: true, retries: 3}
table-options: {AWS_REGION: eu-west-1}
spark: local[2]
to-storage-options:
  anon: false
  client_kwargs: {endpoint_url: "http://localhost:9000", retries: 3}
"""


def written(tmp_path: Path, text: str | bytes) -> str:
    path = tmp_path / "pipeline.yaml"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def test_all_settings_are_read(tmp_path: Path) -> None:
    settings = make_settings(load_settings(written(tmp_path, WHOLE)))
    assert settings.paths == ("/backups/a", "s3://bucket/b")
    assert (settings.to, settings.topic, settings.exclude) == (
        "s3://lake/kafka",
        ("click*", "orders"),
        ("clicks-test",),
    )
    assert (settings.isolation, settings.by_date, settings.compression) == ("read_committed", True, "snappy")
    assert (settings.file_bytes, settings.max_batch_bytes) == (1 << 30, 200_000_000)
    assert settings.decoding is not None
    assert (settings.decoding.value_format, settings.decoding.key_format) == ("json", "auto")
    assert (settings.verify, settings.report, settings.keep_snapshots_s) == (False, False, 43_200)
    assert settings.spark == "local[2]"
    assert (settings.form, settings.catalog.name, settings.catalog.namespace) == ("iceberg", "prod", "raw")
    properties = {"uri": "https://rest", "s3.path-style-access": "true", "retries": "3"}
    assert (settings.catalog.properties, settings.table_options) == (properties, {"AWS_REGION": "eu-west-1"})
    assert settings.to_storage_options == {
        "anon": False, "client_kwargs": {"endpoint_url": "http://localhost:9000", "retries": 3}
    }  # fmt: skip
    assert "localhost" not in repr(settings)  # where secrets may be


def test_names_are_those_of_the_commands_options(tmp_path: Path) -> None:
    text = "no-verify: true\nno-report: true\nfollow: 60\ncatalog-property: [type=rest, uri=a=b]\npath: a\nto: b\n"
    settings = make_settings(load_settings(written(tmp_path, text)))
    assert (settings.verify, settings.report, settings.follow_s) == (False, False, 60.0)
    assert settings.catalog.properties == {"type": "rest", "uri": "a=b"}


WRONG = {
    "no-verfy: true\n": "line 1: there is no setting 'no-verfy'; did you mean no-verify?",
    "settings: x\n": "line 1: settings names such a file, and cannot be in one",
    "report: true\nno-report: true\n": "line 2: report and no-report are there",
    "follow: often\n": "line 1: follow is not a number of seconds above 0",
    "follow: .nan\n": "line 1: follow is not a number of seconds above 0",
    "catalog-property: rest\n": "line 1: catalog-property is not NAME=VALUE",
    "to: x\ntopc: orders\n": "line 2: there is no setting 'topc'; did you mean topic?",
    "to: x\nthe-colour: red\n": "line 2: there is no setting 'the-colour'; there are path, to,",
    "to: x\n\nto: y\n": "line 3: to is there twice",
    "file-bytes: 3 apples\n": "line 1: file-bytes is not a number of bytes; use one such as",
    "file-bytes: 0\n": "line 1: file-bytes is not a number of bytes",
    "by-date: maybe\n": "line 1: by-date is neither true nor false",
    "to: x\nnamespace: a/b\n": "namespace: 'a/b' has other characters",
    "to: x\nas: csv\n": "line 2: as: 'csv' is not one of ",
    "isolation: serializable\n": "line 1: isolation: 'serializable' is not one of read_uncommitted, read_committed",
    "keep-snapshots: forever\n": "line 1: keep-snapshots is not a time; use one such as 30m, 12h or 7d",
    "to:\n": "line 1: to is not a text; write it in quotes",
    "topic: no\n": "line 1: topic is not a text; write it in quotes",
    "topic:\n  - a\n  - {b: c}\n": "line 3: topic is not a text",
    "to: [a, b]\n": "line 1: to is not a text",
    "- a\n- b\n": "line 1: the file is not NAME: VALUE on each line",
    "just words\n": "line 1: the file is not NAME: VALUE on each line",
    "storage-options: many\n": "line 1: storage-options is not NAME: VALUE on each line",
    "value-format: jsonn\n": "value format: 'jsonn' is none of auto,",
    "to: x\ntopic: [a\npath: b\n": "line 3: ",
    "to: !!python/object/apply:os.system [echo]\n": "line 1: to is not a text",
    "": "there are no settings in this file",
    "# nothing\n": "there are no settings in this file",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: text[:20].split(":")[0].strip() or "nothing")
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, text: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UsageError) as raised:
        load_settings(path)
    message = str(raised.value)
    assert message.startswith(path)
    assert WRONG[text] in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "data", [b"\xff\xfe\0\0", b"a: \x00", b"[" * 5_000, b"a: &a [*a]", b"? {a: b}\n: c"], ids=range(5)
)
def test_any_bytes_are_refused_and_nothing_else_is_raised(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(UsageError):
        load_settings(written(tmp_path, data))


def test_a_file_that_is_not_there_or_too_large_is_unreadable(tmp_path: Path) -> None:
    with pytest.raises(UnreadableError, match="there is no such file"):
        load_settings(str(tmp_path / "none.yaml"))
    with pytest.raises(UnreadableError, match="more than"):
        load_settings(written(tmp_path, b"#" * (2 << 20)))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ({"to": "x"}, "what to read: give PATH"),
        ({"paths": ("x",)}, "where to write: give to="),
        ({"paths": ("x",), "to": "y", "topics": "a"}, "there is no setting 'topics'; did you mean topic?"),
    ],
)
def test_what_is_missing_or_unknown_is_refused(found: dict[str, object], expected: str) -> None:
    with pytest.raises(UsageError, match=expected.replace("?", r"\?")):
        make_settings(found)
