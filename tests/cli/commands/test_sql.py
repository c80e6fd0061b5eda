"""``brokerless sql``: queries have the rows of the library's tables, write the formats that others read, report
damage, and touch nothing but the log."""

from __future__ import annotations

import csv
import io
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from tests.cli.conftest import Run
from tests.log.whole_batches import batch
from tests.typed.logs import write_log
from tests.typed.registries import client, registry_records

import brokerless
from brokerless.cli.sql_shell import answer, blocks, completions, history_file, is_complete, quoted
from brokerless.dataset.tables import TABLES, Tables
from brokerless.errors import UsageError
from brokerless.sql.files import lines_of
from brokerless.sql.session import Session

DEMO = "demo/data"
MOST = (1 << 63) - 1
COUNT = 'SELECT topic, count(*) AS records, max("offset") AS last FROM records GROUP BY topic ORDER BY topic'


@pytest.fixture
def session() -> Session:
    log = brokerless.open(DEMO)
    return Session(Tables(log.directory, tuple(log.paths)))


def wanted() -> list[dict[str, object]]:
    table = brokerless.open(DEMO).records(["topic", "offset"]).read_all()
    groups = table.group_by("topic").aggregate([([], "count_all"), ("offset", "max")]).sort_by("topic").to_pylist()
    return [{"topic": row["topic"], "records": row["count_all"], "last": row["offset_max"]} for row in groups]


def test_a_script_chooses_how_results_are_shown_and_reads_others(run: Run, tmp_path: Path) -> None:
    inner, outer, loop = tmp_path / "inner.sql", tmp_path / "outer.sql", tmp_path / "loop.sql"
    inner.write_text("SELECT 2 AS b;\n")
    outer.write_text(
        f".mode line\nSELECT 1 AS a, 'x' AS longer;\n.mode csv\n.read {inner}\n.mode json\nSELECT 3 AS c;\n"
        ".mode table\nSELECT 4 AS d;\n"
    )
    result = run("sql", "-f", outer, DEMO)
    assert (result.exit_code, result.err) == (0, "")
    assert result.lines == ["     a = 1", "longer = x", "b", "2", '{"c":3}', "d", "4"]
    loop.write_text(f".read {loop}\n")
    assert run("sql", "-f", loop, DEMO).exit_code == 2
    outer.write_text(".mode nice\n")
    assert "there are table, line, csv, json" in run("sql", "-f", outer, DEMO).err
    outer.write_text(f".read {tmp_path / 'nowhere'}\n")
    assert run("sql", "-f", outer, DEMO).exit_code == 2


def test_schema_alone_describes_all_tables(session: Session) -> None:
    lines = list(answer(session, ".schema"))
    assert [line.removesuffix(":") for line in lines if not line.startswith(" ")] == list(
        map(quoted, session.columns())
    )
    assert "  topic: VARCHAR" in lines


def test_a_table_for_people(run: Run) -> None:
    done = run("sql", COUNT, DEMO)
    assert done.exit_code == 0
    lines = done.out.decode().splitlines()
    assert lines[0].split() == ["topic", "records", "last"]
    assert [line.split() for line in lines[1:]] == [[str(value) for value in row.values()] for row in wanted()]


def test_of_several_statements_each_answers_and_a_file_has_the_last_answer(run: Run, tmp_path: Path) -> None:
    query = "SELECT 1 AS a; SELECT 2 AS a"
    assert run("sql", query, DEMO, "--json").json == [{"a": 1}, {"a": 2}]
    assert run("sql", query, DEMO, "-o", tmp_path / "x.json").exit_code == 0
    assert (tmp_path / "x.json").read_bytes() == b'{"a":2}\n'


def test_the_shells_commands_are_answered_between_statements(run: Run) -> None:
    lines = run("sql", ".tables", DEMO).lines
    assert any(line.startswith("orders: ") for line in lines)
    text = ".tables\nSELECT 1 AS a;\n.help\nSELECT\n.5 AS b; SELECT ';\n.no' AS c\n.tables"
    assert list(blocks(text + ";\n.quit\nx")) == [
        ".tables", "SELECT 1 AS a;\n", ".help", "SELECT\n.5 AS b; SELECT ';\n.no' AS c\n.tables;\n"
    ]  # fmt: skip


def test_a_plan_has_its_lines(run: Run) -> None:
    lines = run("sql", "EXPLAIN SELECT key FROM orders", DEMO).lines
    assert any("PYTHON_ARROW_SCAN" in line for line in lines[1:])
    assert not any("\\n" in line or "\u2026" in line for line in lines)


def test_json_and_csv(run: Run) -> None:
    assert [json.loads(line) for line in run("sql", COUNT, DEMO, "--json").out.decode().splitlines()] == wanted()
    rows = list(csv.DictReader(io.StringIO(run("sql", COUNT, DEMO, "--csv").out.decode())))
    assert rows == [{name: str(value) for name, value in row.items()} for row in wanted()]


@pytest.mark.parametrize("name", ["r.parquet", "r.arrow", "r.csv", "r.jsonl", "r.data"])
def test_files(run: Run, tmp_path: Path, name: str) -> None:
    to = tmp_path / name
    done = run("sql", COUNT, DEMO, "-o", str(to), *(["--output-format", "parquet"] if name == "r.data" else []))
    assert (done.exit_code, done.out.decode()) == (0, f"6 rows written to {to}\n")
    match name.partition(".")[2]:
        case "parquet" | "data":
            assert pq.read_table(to).to_pylist() == wanted()
        case "arrow":
            assert pa.ipc.open_file(to).read_all().to_pylist() == wanted()
        case "csv":
            assert to.read_text() == run("sql", COUNT, DEMO, "--csv").out.decode()
        case _:
            assert to.read_text() == run("sql", COUNT, DEMO, "--json").out.decode()
    assert [each.name for each in tmp_path.iterdir()] == [name]


def test_a_query_that_fails_leaves_the_file(run: Run, tmp_path: Path) -> None:
    to = tmp_path / "r.csv"
    to.write_text("before")
    done = run("sql", "SELECT decode('\\xFF'::BLOB)", DEMO, "-o", str(to))
    assert done.exit_code == 2
    assert to.read_text() == "before"


def test_values_of_all_kinds(run: Run) -> None:
    query = """SELECT 'a"b' AS t, '\\xFF'::BLOB AS b, 'x'::BLOB AS u, NULL AS n, true AS f,
        1.5 AS d, 'nan'::DOUBLE AS nan,
        TIMESTAMPTZ '2026-01-02 03:04:05.678Z' AS at, DATE '2026-01-02' AS day, [1, NULL] AS l, {'a': 'x'::BLOB} AS s"""
    (line,) = run("sql", query, DEMO, "--json").out.decode().splitlines()
    assert json.loads(line) == {
        "t": 'a"b', "b": {"base64": "/w=="}, "u": "x", "n": None, "f": True, "d": 1.5, "nan": "nan",
        "at": 1767323045678, "day": "2026-01-02", "l": [1, None], "s": {"a": "x"},
    }  # fmt: skip
    (row,) = csv.DictReader(io.StringIO(run("sql", query, DEMO, "--csv").out.decode()))
    assert row["at"] == "2026-01-02T03:04:05.678Z"
    assert (row["t"], row["n"], row["l"], row["b"]) == ('a"b', "", "[1,null]", '{"base64":"/w=="}')


def test_decimals_keep_their_digits_in_json(run: Run) -> None:
    """Python's parser is the judge: of a number, and of a text with what a float cannot have."""
    texts = ["12345678901234567890123456789012345.678", "0.1", "5.00", "-584.25", "12345678901234567890"]
    query = "SELECT " + ", ".join(f"{text}::DECIMAL(38, 3) AS c{at}" for at, text in enumerate(texts))
    (line,) = run("sql", query, DEMO, "--json").out.decode().splitlines()
    found = json.loads(line, parse_float=Decimal, parse_int=Decimal)
    assert [Decimal(each) for each in found.values()] == [Decimal(text) for text in texts]


def test_of_many_rows_the_first_are_shown(run: Run) -> None:
    lines = run("sql", 'SELECT "offset" FROM orders', DEMO).out.decode().splitlines()
    assert len(lines) == 102
    assert lines[-1].startswith("... and more rows")
    assert len(run("sql", 'SELECT "offset" FROM orders', DEMO, "--limit", "3").out.decode().splitlines()) == 5
    refused = run("sql", 'SELECT "offset" FROM orders', DEMO, "--limit", "3", "--json")
    assert (refused.exit_code, "write LIMIT in the query" in refused.err) == (2, True)


def test_show_tables_lists_each_name_once(run: Run, tmp_path: Path) -> None:
    topics = {str(each.topic) for each in brokerless.open(DEMO).paths}
    names = [row["name"] for row in run("sql", "CREATE TABLE mine (a INT); show tables;", DEMO, "--json").json]
    assert names == sorted({*TABLES, *topics, "mine"})


def test_a_lone_file_has_the_topic_of_its_directory_or_none(run: Run, tmp_path: Path) -> None:
    file = next(Path(DEMO).glob("users-0/*.log"))
    query = "SELECT count(*) AS n, count(topic) AS topics FROM"
    (row,) = run("sql", f"{query} records", file, "--json").json
    assert row["n"] > 0
    assert run("sql", f"{query} users", file, "--json").json == [row]
    copy = Path(shutil.copy(file, tmp_path))
    assert run("sql", f"{query} records", copy, "--json").json == [row]
    done = run("sql", f"{query} users", copy)
    assert (done.exit_code, "a lone file's records are the table records" in done.err) == (2, True)


def test_views_of_topics_and_of_tables(session: Session) -> None:
    with session:
        log = brokerless.open(DEMO)
        for topic in ("orders", "__consumer_offsets"):
            result = session.query(f'SELECT count(*) AS n FROM "{topic}"')
            assert result is not None
            records = sum(each.num_rows for p in log.topic(topic).partitions for each in p.records(["offset"]))
            assert result.read_all().to_pylist() == [{"n": records}]
        for table in TABLES:
            result = session.query(f"FROM {table}")
            assert result is not None
            dataset = log.dataset(table)
            assert result.schema.names == dataset.schema.names
            assert result.read_all().num_rows == dataset.count_rows()


def test_a_topic_does_not_hide_a_table(tmp_path: Path) -> None:
    shutil.copytree(Path(DEMO) / "users-0", tmp_path / "Offsets-0")
    shutil.copytree(Path(DEMO) / "users-0", tmp_path / "my.to-pic-0")
    log = brokerless.open(tmp_path)
    with Session(Tables(log.directory, tuple(log.paths))) as session:
        for query, count in (("FROM offsets", 0), ("FROM topic.offsets", 218), ('FROM "my.to-pic"', 218)):
            result = session.query(query)
            assert result is not None
            assert result.read_all().num_rows == count


def test_topics_whose_names_differ_in_case_only_are_asked_for_by_a_condition(tmp_path: Path) -> None:
    for name, of in (("Caps", "users"), ("caps", "payments"), ("other", "users")):
        shutil.copytree(Path(DEMO) / f"{of}-0", tmp_path / f"{name}-0")
    log = brokerless.open(tmp_path)
    with Session(Tables(log.directory, tuple(log.paths))) as session:
        assert session.topics == ["other"]
        for view in ("caps", 'topic."Caps"'):
            with pytest.raises(UsageError, match="does not exist"):
                session.query(f"FROM {view}")
        found = session.query("SELECT DISTINCT topic FROM records WHERE topic = 'caps'")
        assert found is not None
        assert found.read_all().to_pylist() == [{"topic": "caps"}]


def test_a_result_that_nobody_reads_leaves_nothing(tmp_path: Path) -> None:
    """Neither a directory for what spills, nor DuckDB's complaint of what it still holds at Python's end."""
    program = f"import brokerless; brokerless.open({DEMO!r}).sql('SELECT 1')"
    ran = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE
    )
    assert (ran.returncode, ran.stderr, list(tmp_path.iterdir())) == (0, b"", [])


def test_python(run: Run) -> None:
    assert brokerless.open(DEMO).sql(COUNT).read_all().to_pylist() == wanted()
    with pytest.raises(UsageError, match=r'write "offset" in double quotes'):
        brokerless.open(DEMO).sql("SELECT offset FROM records")


def test_damage_is_reported_once_and_the_rest_is_read(run: Run, tmp_path: Path) -> None:
    shutil.copytree(Path(DEMO) / "orders-0", tmp_path / "orders-0")
    file = tmp_path / "orders-0" / "00000000000000000656.log"
    data = bytearray(file.read_bytes())
    data[10_000] ^= 1
    file.write_bytes(data)
    done = run(
        "sql", 'SELECT count(*) AS n FROM records AS a JOIN records AS b USING ("offset")', str(tmp_path), "--json"
    )
    cat = run("cat", str(tmp_path), "--json")
    assert (done.exit_code, cat.exit_code) == (1, 1)
    assert json.loads(done.out.decode()) == {"n": len(cat.out.decode().splitlines())}
    assert done.err == cat.err


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT offset FROM users", 'write "offset" in double quotes'),
        ("FROM nothing", "the tables are records, batches"),
        ("COPY users TO '{}/out.csv'", "queries read the log only"),
        ("FROM read_csv('{}/secret.csv')", "queries read the log only"),
        ("FROM '{}/secret.csv'", "queries read the log only"),
        ("ATTACH '{}/x.db'", "queries read the log only"),
        ("INSTALL httpfs", "queries read the log only"),
        ("SET enable_external_access = true", "queries read the log only"),
        ("SELECT decode('\\xFF'::BLOB)", "UTF8"),
    ],
)
def test_mistakes_and_what_is_not_allowed(run: Run, tmp_path: Path, query: str, message: str) -> None:
    (tmp_path / "secret.csv").write_text("a\n1\n")
    done = run("sql", query.format(tmp_path), DEMO)
    assert done.exit_code == 2
    assert done.out.decode() == ""
    assert message.lower() in done.err.lower()
    assert len(done.err.splitlines()) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["secret.csv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--csv", "--json"], "exclude each other"),
        (["--output-format", "csv"], "add -o FILE"),
        (["-o", "result.txt"], "its ending is none of"),
    ],
)
def test_options_that_do_not_fit(run: Run, arguments: list[str], message: str) -> None:
    done = run("sql", "SELECT 1", DEMO, *arguments)
    assert (done.exit_code, message in done.err) == (2, True)


def test_times_are_in_utc(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    query = "SELECT hour(min(timestamp)) AS h, current_setting('TimeZone') AS z FROM orders"
    first = brokerless.open(DEMO).dataset("topics").to_table(columns=["topic", "minTimestamp"]).to_pylist()
    hour = next(row["minTimestamp"].hour for row in first if row["topic"] == "orders")
    assert json.loads(run("sql", query, DEMO, "--json").out.decode()) == {"h": hour, "z": "UTC"}


def test_date_trunc_is_duckdbs(session: Session) -> None:
    plain = duckdb.connect()
    plain.execute("SET TimeZone = 'UTC'")
    times = "SELECT make_timestamp_ms(i * 987654321987 - 99999999999999)::TIMESTAMPTZ AS t FROM range(300) AS r(i)"
    parts = ("millisecond", "second", "minute", "HOUR", "day", "week", "month", "quarter", "year", "decade", "century")
    queries = [f"SELECT date_trunc('{part}', t) AS v, typeof(v) AS kind FROM ({times})" for part in parts]
    values = ("'infinity'::TIMESTAMPTZ", "TIMESTAMP '2020-01-02 03:04:05'", "DATE '2020-01-02'", "INTERVAL 90 MINUTE")
    queries += [f"SELECT date_trunc('hour', {each}) AS v, typeof(v) AS kind" for each in values]
    queries += [
        f"SELECT typeof(t), list_transform([t], lambda x: date_trunc('day', x)) AS days FROM ({times})",
        f"CREATE VIEW hours AS SELECT date_trunc('hour', t) AS h, t FROM ({times})",
        f"SELECT date_trunc('hour', max(t)) AS v, count(DISTINCT date_trunc('year', t)) AS n FROM ({times})",
        "SELECT h, count(*) AS n, date_trunc('day', min(h)) AS day FROM hours GROUP BY ALL ORDER BY h",
    ]
    with session:
        for query in queries:
            found, expected = session.query(query), plain.sql(query)
            assert (found is None) == (expected is None)
            if found is not None:
                assert found.read_all().equals(expected.to_arrow_table()), query


def test_a_slow_query_has_nothing_but_its_rows_on_stdout(run: Run) -> None:
    """DuckDB's progress bar, which it shows after two seconds, would be among them."""
    query = "SELECT current_setting('enable_progress_bar') AS bar"
    assert run("sql", query, DEMO, "--json").json == [{"bar": False}]


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
@pytest.mark.slow(reason="a process of its own")
def test_a_long_query_ends_when_it_is_interrupted(stop: signal.Signals, code: int) -> None:
    query = "SELECT 1 AS a; SELECT sum(a.range * b.range * 1.5) FROM range(10000000) a, range(10000000) b"
    command = [sys.executable, "-m", "brokerless", "sql", query, str(DEMO), "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b'{"a":1}\n'
    wait_until_busy(process.pid)
    process.send_signal(stop)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (code, b"", b"")


def wait_until_busy(pid: int) -> None:
    """Wait until a process has used half a second more of a processor, which no statement but a long one takes."""

    def used() -> float:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
        return sum(map(int, times)) / os.sysconf("SC_CLK_TCK")

    until, give_up = used() + 0.5, time.monotonic() + 60
    while used() < until:
        assert time.monotonic() < give_up
        time.sleep(0.05)


def test_a_terminal_gets_no_control_characters_in_csv() -> None:
    query = "SELECT chr(27) || ']0;t' || chr(7) AS \"a" + chr(27) + "b\", chr(8238) AS c, 'x' || chr(10) || 'y' AS d"
    found = b"".join(lines_of([], pa.schema([]), "csv"))
    assert found == b"\n"
    batch = duckdb.connect().sql(query).to_arrow_table().to_batches()[0]
    shown = b"".join(lines_of([batch], batch.schema, "csv", is_terminal=True))
    assert shown.decode() == "a\\x1bb,c,d\n\\x1b]0;t\\x07,\\u202e,x\\ny\n"
    raw = b"".join(lines_of([batch], batch.schema, "csv")).decode()
    assert list(csv.reader(io.StringIO(raw))) == [["a\x1bb", "c", "d"], ["\x1b]0;t\x07", "\u202e", "x\ny"]]


def test_what_parquet_has_no_type_for_is_said(run: Run, tmp_path: Path) -> None:
    result = run("sql", "SELECT union_value(k := 1) AS u", DEMO, "-o", tmp_path / "x.parquet")
    assert result.exit_code == 2
    assert "Parquet has no type for a column of this result" in result.err
    assert not (tmp_path / "x.parquet").exists()


def test_statements_in_a_file(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "q.sql"
    file.write_text("SELECT 1 AS a;\n.schema topics\nSELECT 2 AS b;\n")
    lines = run("sql", "-f", file, DEMO).lines
    assert lines[0].strip() == "a"
    assert any(line.startswith("topic: VARCHAR") for line in lines)
    file.write_text("SELECT 1 AS a; SELECT 2 AS b")
    assert run("sql", "-f", file, DEMO, "-o", tmp_path / "x.csv").exit_code == 0
    assert (tmp_path / "x.csv").read_text() == "b\n2\n"
    for arguments, reason in (
        (("q", DEMO, "-f", file), "not both"), ((file, DEMO), f"are read with -f {file}"),
        (("-f", tmp_path / "no.sql", DEMO), "no such file"),
    ):  # fmt: skip
        result = run("sql", *arguments)
        assert (result.exit_code, reason in result.err) == (2, True), result.err
    file.write_bytes(b"\xff")
    assert "no text in UTF-8" in run("sql", "-f", file, DEMO).err


def test_statements_from_stdin() -> None:
    """As in ``psql -f -``: of processes, whose stdin is a pipe, closed, or no text."""
    command = [sys.executable, "-m", "brokerless", "sql", "-f", "-", str(DEMO), "--csv"]
    done = subprocess.run(command, input=b"SELECT 1 AS a; SELECT count(*) AS b FROM orders", capture_output=True)
    assert (done.returncode, done.stdout.split()) == (0, [b"a", b"1", b"b", b"3796"])
    done = subprocess.run(command, input=b"\xff", capture_output=True)
    assert (done.returncode, done.stderr) == (2, b"brokerless: stdin: this is no text in UTF-8\n")
    for own in (command, [each for each in command if each not in ("-f", "-")]):
        done = subprocess.run(own, capture_output=True, preexec_fn=lambda: os.close(0))
        assert (done.returncode, done.stderr.startswith(b"brokerless: stdin: it is closed; ")) == (2, True), done.stderr


def test_what_the_shell_answers(session: Session, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with session:
        tables = list(answer(session, ".tables"))
        columns = list(answer(session, ".schema orders"))
        assert list(answer(session, '.schema "orders";')) == columns
        with pytest.raises(UsageError, match="there is no table or topic nothing"):
            list(answer(session, ".schema nothing"))
    assert {"key: BLOB", '"offset": BIGINT'} <= set(columns)
    assert any(line.startswith('records: key, value, topic, partition, "offset"') for line in tables)
    assert any(line.startswith("orders: ") for line in tables)
    assert next(answer(session, ".help")).startswith("Statements end with ;")
    (line,) = answer(session, ".x")
    assert line.startswith(
        "there is no command .x; there are .tables, .schema, .mode, .read, .help and .quit (a result is "
    )
    assert [is_complete(text) for text in ("SELECT 1", "SELECT 1;", ".help", "")] == [False, True, True, True]
    assert completions(["orders", '"offset"', "SELECT"], "o") == ['"offset"', "orders"]
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert history_file() == tmp_path / "brokerless" / "sql_history"


def test_the_shell_completes_names_and_remembers_statements(tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "PROMPT_TOOLKIT_NO_CPR": "1", "TERM": "xterm"}
    command = [sys.executable, "-m", "brokerless", "sql", DEMO]
    process, terminal = pty.fork()
    if not process:
        os.execve(command[0], command, environment)
    sent = b""

    def until(text: bytes) -> None:
        nonlocal sent
        give_up = time.monotonic() + 60
        while text not in sent and time.monotonic() < give_up:
            if select.select([terminal], [], [], 1)[0]:
                sent += os.read(terminal, 1 << 16)
        assert text in sent, sent
        sent = b""

    until(b"sql>")
    os.write(terminal, b"SELECT count(*) * 7 AS n FROM paym\t")
    until(b"ments")
    os.write(terminal, b";\r")
    until(b"10801")  # of 1,543 records
    os.write(terminal, b"\x1b[A\r")
    until(b"10801")
    os.write(terminal, b"SELECT nothing;\r")
    until(b"nothing")
    os.write(terminal, b".quit\r")
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0
    os.close(terminal)
    assert "+SELECT count(*) * 7 AS n FROM payments;" in (tmp_path / "brokerless" / "sql_history").read_text()


@pytest.mark.parametrize("form", [[], ["--json"], ["--csv"]])
def test_timestamps_that_are_no_times_fail_no_query(run: Run, tmp_path: Path, form: list[str]) -> None:
    times = (-1, -5, 0, 253_402_300_800_000, 9_000_000_000_000_000, 9_223_372_036_854_776, MOST, -MOST - 1)
    (tmp_path / "t-0").mkdir()
    data = [batch(offset, timestamp=time).tobytes() for offset, time in enumerate(times)]
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(b"".join(data))
    for query in (
        "SELECT timestamp, timestamp::DATE, date_trunc('hour', timestamp), timestamp::VARCHAR FROM t",
        "SELECT list(timestamp), max(timestamp) - min(timestamp), max(timestamp) + INTERVAL 1 YEAR FROM t",
        "SELECT baseTimestamp, maxTimestamp FROM batches",
        "SELECT minTimestamp, maxTimestamp FROM segments JOIN topics USING (minTimestamp, maxTimestamp)",
    ):
        done = run("sql", query, tmp_path, *form)
        assert (done.exit_code, done.err.count("they are null in SQL") > 0) == (0, True), (query, done.err)
    found = run("sql", 'SELECT timestamp FROM t ORDER BY "offset"', tmp_path, "--json").json
    assert [row["timestamp"] for row in found] == [*times[:5], None, None, None]
    shown = [row["timestamp"] for row in found]
    past = [time for time in shown if time is not None and time < 0]
    for condition, rows in {
        "timestamp >= '2026-01-01'": 2,
        "timestamp < '1970-01-01'": len(past),
        "timestamp IS NULL": shown.count(None),
        "timestamp IS NOT NULL": len(shown) - shown.count(None),
        "timestamp IS NULL OR timestamp < '1970-01-01'": shown.count(None) + len(past),
    }.items():
        count = f"SELECT count(*) AS n FROM t WHERE {condition}"
        assert run("sql", count, tmp_path, "--json").json == [{"n": rows}], condition


def test_a_query_in_little_memory_spills_or_says_what_to_do(run: Run) -> None:
    values = "SELECT repeat(text_of(value), 10) || range AS v FROM orders, range(60)"  # some 300 MB
    count = f"SELECT count(DISTINCT v) AS n FROM ({values})"
    assert run("sql", count, DEMO, "--json", "--memory-limit", "150MB").json == [{"n": 227_760}]
    done = run("sql", "SELECT list(repeat(text_of(value), 500)) FROM orders", DEMO, "--memory-limit", "50MB")
    assert done.exit_code == 2
    assert done.err.endswith("used); --memory-limit SIZE sets what DuckDB may take\n")


def test_the_answers_in_the_docs(run: Run) -> None:
    """Those of docs/sql.md; in this process, as to import DuckDB for each of them would take half a minute."""
    blocks = re.findall(r"^```sh-session\n\$ (.*)\n((?:.*\n)*?)```$", Path("docs/sql.md").read_text(), re.MULTILINE)
    assert len(blocks) == 26
    for command, shown in blocks:
        done = run(*shlex.split(command)[1:])
        assert (done.exit_code, done.err) == (0, ""), command
        lines, wanted = done.out.decode(), shown.removesuffix("...\n")
        assert lines.startswith(wanted) if shown != wanted else lines == shown, command


ORDER_V1: dict[str, Any] = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
ORDER_V2 = {**ORDER_V1, "fields": [*ORDER_V1["fields"], {"name": "country", "type": "string", "default": "-"}]}


@pytest.fixture(scope="module")
def typed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A topic of two versions of a schema, one record whose id is unknown, and one topic without schemas."""
    registry = client()
    context = SerializationContext("orders", MessageField.VALUE)
    first, second = (AvroSerializer(registry, json.dumps(each)) for each in (ORDER_V1, ORDER_V2))
    old = [(b"k", first({"id": number}, context)) for number in range(50)]
    new = [(b"k", second({"id": number, "country": "SE"}, context)) for number in range(50, 100)]
    topics = {
        "_schemas": registry_records(registry),
        "orders": [*old, *new, (b"k", b"\0\0\0\0\x63?")],
        "notes": [(None, b"plain")],
    }
    return write_log(tmp_path_factory.mktemp("typed"), topics)


def test_views_are_typed_where_the_registry_has_the_topics_schemas(run: Run, typed: Path) -> None:
    query = "SELECT value.country AS country, count(*) AS n, sum(value.id) AS ids FROM orders WHERE value IS NOT NULL "
    result = run("sql", f"{query} GROUP BY ALL ORDER BY n, country", typed, "--json")
    assert result.json == [{"country": "-", "n": 50, "ids": 1225}, {"country": "SE", "n": 50, "ids": 3725}]
    assert run("sql", "SELECT text_of(value) AS t FROM notes", typed, "--json").json == [{"t": "plain"}]


def test_what_cannot_be_decoded_has_its_bytes_and_a_reason(run: Run, typed: Path) -> None:
    query = 'SELECT "offset", valueRaw IS NULL AS lost, valueError FROM orders WHERE value IS NULL'
    result = run("sql", query, typed, "--json")
    (row,) = result.json
    assert (row["offset"], row["lost"]) == (100, False)
    assert "unknown schema id 99" in row["valueError"]
    assert "not decoded" in result.err


def test_ranges_and_typed_conditions_agree_with_the_untyped_table(typed: Path) -> None:
    log = brokerless.open(typed)
    query = 'SELECT "offset" FROM orders WHERE "offset" BETWEEN 40 AND 60 AND value.id % 2 = 0 ORDER BY ALL'
    assert log.sql(query).read_all()["offset"].to_pylist() == list(range(40, 61, 2))
    assert log.sql("SELECT count(*) AS n FROM orders").read_all()["n"].to_pylist() == [101]
    whole = log.sql("SELECT value FROM records WHERE topic = 'orders' AND \"offset\" = 3").read_all()
    assert pa.types.is_binary(whole.schema.field("value").type)


def test_schemas_may_be_elsewhere(run: Run, typed: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    shutil.copytree(typed / "orders-0", bare / "orders-0")
    query = "SELECT sum(value.id) AS ids FROM orders"
    assert run("sql", query, bare).exit_code == 2
    assert run("sql", query, bare, "--schemas", typed, "--json").json == [{"ids": 4950}]
    assert brokerless.open(bare).sql(query, schemas=str(typed)).read_all()["ids"].to_pylist() == [4950]


@pytest.fixture(scope="module")
def bare(typed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same topics without the registry's."""
    target = tmp_path_factory.mktemp("bare")
    for name in ("orders-0", "notes-0"):
        shutil.copytree(typed / name, target / name)
    return target


@pytest.mark.parametrize("by", ["id", "another subject"])
def test_a_view_is_typed_by_the_schemas_that_its_records_name(run: Run, bare: Path, tmp_path: Path, by: str) -> None:
    for number, schema in ((1, ORDER_V1), (2, ORDER_V2), (3, {**ORDER_V1, "name": "NotUsed"})):
        value = {"subject": schema["name"], "version": number, "id": number, "schema": json.dumps(schema)}
        key = {"keytype": "SCHEMA", "subject": schema["name"], "version": number, "magic": 1}
        with (tmp_path / "schemas.jsonl").open("a") as lines:
            lines.write(f"{json.dumps({'key': json.dumps(key), 'value': json.dumps(value)})}\n")
        (tmp_path / f"{number}.avsc").write_text(json.dumps(schema))
    schemas = tmp_path if by == "id" else tmp_path / "schemas.jsonl"
    query = "SELECT count(value.country) AS countries, sum(value.id) AS ids, min(key) AS k FROM"
    both = f"{query} orders; {query} topic.orders; SELECT text_of(value) AS t FROM notes"
    answer = {"countries": 100, "ids": 4950, "k": "k"}
    done = run("sql", both, bare, "--schemas", schemas, "--json")
    assert done.json == [answer, answer, {"t": "plain"}]
    assert "unknown schema id 99" in done.err


def test_a_field_of_bytes_is_explained(run: Run, bare: Path) -> None:
    assert "--schemas says where they are" in run("sql", "SELECT value.id FROM orders", bare).err
    assert "brokerless sql has typed fields" in run("cat", bare, "--where", "value.id = 1").err
