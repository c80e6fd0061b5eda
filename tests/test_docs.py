"""The documentation is true: tables of layouts, examples byte by byte, commands with their output, names.

In README.md and docs/, a ```console block is commands (lines that begin with ``$ ``), run by a shell as if in the
repository root, each followed by its exact output; a lone ``...`` stands for any omitted lines. A command that fails
has to be followed by one that shows ``$?``. The ```python blocks of one file are one script; a ```text block directly
after one is its exact output. Blocks with commands that are not in ``RUN``, and of other languages, are only shown.
Those of docs/runbook.md are run by ``tests.kafka.test_runbook``, on a broker's disk.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest
from scripts import list_modules

import brokerless
import tests.golden
from brokerless.cli import main
from brokerless.format import layouts
from brokerless.internals import state

ROOT = Path(__file__).parents[1]
DOCS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
RUNBOOK = ROOT / "docs" / "runbook.md"
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
RUN = {"brokerless", "cat", "cp", "echo", "grep", "head", "mkdir", "printf", "sort", "tail", "wc"}
METADATA_VERSIONS = {27: "4.1", 33: "4.4"}
"""The newest ``MetadataVersion`` of a release, with which it formats directories."""
TYPES = {"int8": "i1", "int16": ">i2", "int32": ">i4", "int64": ">i8", "uint32": ">u4"}
SEPARATOR, NEXT_PAGE = "-- the next block --", "-- the next page --"

_FENCE = re.compile(r"^```(\S*) ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LAYOUT = re.compile(r"^`([A-Z_0-9]+)`, (\d+) bytes:?\n\n((?:\|.*\n)+)", re.MULTILINE)
_CASE = re.compile(r"`((?:formats|articles|specials|framing|damaged|append|downconvert|brokers)/[\w.-]+)`")
_LINK = re.compile(r"\]\((?!\w+:|#)([^)#\s]+)[^)]*\)")


@dataclass(frozen=True)
class Block:
    language: str
    about: str
    text: str
    follows: bool
    """Whether nothing but an empty line is between the block before and this one."""


def blocks(path: Path) -> list[Block]:
    text, end = path.read_text(), -1
    found: list[Block] = []
    for match in _FENCE.finditer(text):
        found.append(Block(match[1], match[2], match[3], end >= 0 and not text[end : match.start()].strip()))
        end = match.end()
    return found


def of_files(paths: list[Path]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("path", paths, ids=lambda path: str(path.relative_to(ROOT)))


def rows(table: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in table.splitlines()[2:]]


def layout_tables() -> list[tuple[str, int, str]]:
    text = (ROOT / "docs" / "format.md").read_text()
    return [(match[1], int(match[2]), match[3]) for match in _LAYOUT.finditer(text)]


@pytest.mark.parametrize(("name", "size", "table"), layout_tables())
def test_a_layouts_table_is_its_dtype(name: str, size: int, table: str) -> None:
    documented = [(field.strip("`"), TYPES[type_], int(width), int(at)) for field, type_, width, at, *_ in rows(table)]
    fields = getattr(layouts, name).fields
    assert documented == [(field, type_.str.lstrip("|"), type_.itemsize, at) for field, (type_, at) in fields.items()]
    assert size == getattr(layouts, name).itemsize


def test_every_layout_has_its_table() -> None:
    dtypes = {name for name, value in vars(layouts).items() if isinstance(value, np.dtype)}
    assert {name for name, _, _ in layout_tables()} == dtypes


def examples() -> list[Block]:
    return [block for block in blocks(ROOT / "docs" / "format.md") if block.language == "hex"]


@pytest.mark.parametrize("block", examples(), ids=lambda block: block.about)
def test_an_example_is_what_kafka_wrote_byte_by_byte(block: Block) -> None:
    case, *dtypes = block.about.split()
    lines = [re.split(r" {2,}", line, maxsplit=1) for line in block.text.splitlines()]
    assert bytes.fromhex("".join(line[0] for line in lines)) == tests.golden.case(case).log.read_bytes()
    position, said = 0, dict[int, str]()
    for digits, *meaning in lines:
        said[position] = re.split(r"\W", "".join(meaning), maxsplit=1)[0]
        position += len(bytes.fromhex(digits))
    for dtype in dtypes:
        assert {at: name for name, (_, at) in getattr(layouts, dtype).fields.items()}.items() <= said.items()


@of_files(DOCS)
def test_the_golden_cases_that_are_named_exist(path: Path) -> None:
    for name in _CASE.findall(path.read_text()):
        assert (tests.golden.golden() / name).is_dir(), name


def test_kafkas_reader_reads_and_refuses_what_the_tables_say() -> None:
    judged = 0
    for line in (ROOT / "docs" / "format.md").read_text().splitlines():
        match = re.match(r"\|.*\| (reads|refuses)\b.*?\|.*`((?:specials|framing|damaged|formats)/.*)`.*\|$", line)
        for name in _CASE.findall(line) if match else []:
            outcome = tests.golden.case(name).outcome or "ok"
            assert outcome == ("ok" if match and match[1] == "reads" else "error"), name
            judged += 1
    assert judged > 40


def test_the_tests_that_are_named_exist() -> None:
    named = re.findall(r"`(test_\w+)`", "".join(path.read_text() for path in DOCS))
    tests = "".join(path.read_text() for path in Path(__file__).parent.rglob("*.py"))
    assert set(named) <= set(re.findall(r"^def (test_\w+)", tests, flags=re.MULTILINE))


@of_files([*DOCS, ROOT / "DEVELOPERS.md"])
def test_the_modules_that_are_named_exist(path: Path) -> None:
    for name in re.findall(r"`([\w/]+/\w+\.py)`", path.read_text()):
        assert (ROOT / "src" / "brokerless" / name).exists() or (ROOT / name).exists(), name


@of_files(DOCS)
def test_links_lead_somewhere(path: Path) -> None:
    for target in _LINK.findall(path.read_text()):
        assert (path.parent / target).exists(), target


def commands(block: Block) -> list[tuple[str, str]]:
    """Each command of a console block and its output."""
    parts = re.split(r"^\$ (.*)\n", block.text, flags=re.MULTILINE)
    assert not parts[0], "a console block begins with a command"
    return list(zip(parts[1::2], parts[2::2], strict=True))


def is_run(command: str) -> bool:
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    first, expected = list[str](), True
    for word in words:
        if expected:
            first.append(word)
        expected = word in ("|", "||", "&&", ";")
    return set(first) <= RUN


def matches(output: str, expected: str) -> bool:
    parts = re.split(r"^\.\.\.\n", expected, flags=re.MULTILINE)
    return re.fullmatch("(?:.*\n)*".join(re.escape(part) for part in parts), output) is not None


@pytest.fixture
def workplace(tmp_path: Path) -> Path:
    return make_workplace(tmp_path)


def make_workplace(directory: Path) -> Path:
    """As the repository root, but files may be written there."""
    for each in ROOT.iterdir():
        (directory / each.name).symlink_to(each)
    return directory


def environment() -> dict[str, str]:
    beside = str(Path(sys.executable).parent)
    kept = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    return kept | {
        "PATH": f"{beside}{os.pathsep}{os.environ['PATH']}",
        "TZ": "UTC",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }


def run(command: str, directory: Path) -> tuple[int, str]:
    """The exit code of a command, and what it printed. A shell runs it. But brokerless, alone or as the first of a
    pipeline, runs in a copy of this process, which has loaded what a new one loads for a second."""
    words = shlex.shlex(command, posix=True, punctuation_chars=True)
    words.whitespace_split = True
    first, *arguments = words
    operators = [at for at, word in enumerate(arguments) if set(word) <= set("|&;<>")]
    at = operators[0] if operators else len(arguments)
    operator, rest = "".join(arguments[at : at + 1]), arguments[at + 1 :]
    # Delta's library does not work in a copy of a process that has used it.
    of_delta = "delta" in arguments or any(any((directory / word).glob("**/_delta_log")) for word in arguments[:at])
    plain = first == "brokerless" and not of_delta and not any(set(word) & set("$*`") for word in arguments[:at])
    with tempfile.TemporaryFile("w+") as output:
        if plain and not operator:
            code = in_a_copy(arguments, directory, output.fileno(), output.fileno())
        elif plain and operator == ">" and len(rest) == 1:
            with (directory / rest[0]).open("wb") as to:
                code = in_a_copy(arguments[:at], directory, to.fileno(), output.fileno())
        elif plain and operator == "|" and "brokerless" not in rest:
            others = subprocess.Popen(
                ["sh", "-c", command.split("|", 1)[1]],
                cwd=directory, env=environment(), stdin=subprocess.PIPE, stdout=output, stderr=output,
            )  # fmt: skip
            assert others.stdin is not None
            with others, others.stdin as to:
                in_a_copy(arguments[:at], directory, to.fileno(), output.fileno())
            code = others.returncode
        else:
            code = subprocess.run(
                ["sh", "-c", command], cwd=directory, env=environment(), stdout=output, stderr=output, check=False
            ).returncode
        output.seek(0)
        return code, output.read()


def in_a_copy(arguments: list[str], directory: Path, stdout: int, stderr: int) -> int:
    if (child := os.fork()) == 0:
        run_here(arguments, directory, stdout, stderr)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def run_here(arguments: list[str], directory: Path, stdout: int, stderr: int) -> NoReturn:
    """As the program would, and this process ends with it."""
    code = -1
    try:
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        sys.stdout, sys.stderr = open(1, "w"), open(2, "w")  # noqa: SIM115
        os.chdir(directory)
        wanted = environment()
        os.environ.clear()
        os.environ.update(wanted)
        time.tzset()
        code = main(arguments)
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


@of_files([path for path in DOCS if path != RUNBOOK and any(block.language == "console" for block in blocks(path))])
def test_commands_print_what_is_shown(path: Path, workplace: Path) -> None:
    for block in blocks(path):
        if block.language != "console" or not all(is_run(command) for command, _ in commands(block)):
            continue
        code = 0
        for command, expected in commands(block):
            assert code == 0 or "$?" in command, "a command failed, and its exit code is not shown"
            code, output = run(command.replace("$?", str(code)), workplace)
            assert matches(output, expected), f"$ {command}\n{output}"
        assert code == 0, "a command failed, and its exit code is not shown"


def script(path: Path) -> str:
    """All python blocks of a page, which prints a line between two of them."""
    return f"\nprint({SEPARATOR!r}, flush=True)\n".join(
        block.text for block in blocks(path) if block.language == "python"
    )


def check_outputs(path: Path, output: str) -> None:
    found = blocks(path)
    places = [at for at, block in enumerate(found) if block.language == "python"]
    for at, printed in zip(places, output.split(SEPARATOR + "\n"), strict=True):
        shown = found[at + 1] if at + 1 < len(found) else None
        if shown is not None and shown.language == "text" and shown.follows:
            assert matches(printed.rstrip("\n") + "\n", shown.text), f"{found[at].text}\n{printed}"


WITH_PYTHON = [path for path in DOCS if any(block.language == "python" for block in blocks(path))]
WITH_SPARK = [path for path in WITH_PYTHON if "pyspark" in script(path)]
WITH_SPARK.sort(key=lambda path: "spark.stop()" in script(path))


@of_files([path for path in WITH_PYTHON if path not in WITH_SPARK])
def test_python_prints_what_is_shown(path: Path, workplace: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", script(path)], cwd=workplace, env=environment(), capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    check_outputs(path, done.stdout)


ONE_AFTER_ANOTHER = f"""
import json, sys
for script in json.load(sys.stdin):
    exec(script, {{"__name__": "__main__"}})
    print({NEXT_PAGE!r}, flush=True)
"""


def test_python_with_spark_prints_what_is_shown(quick_spark: str, workplace: Path) -> None:
    """In one process, as they can share a session: to start one takes longer than all that they do with it."""
    done = subprocess.run(
        [sys.executable, "-c", ONE_AFTER_ANOTHER], cwd=workplace, env=environment(),
        input=json.dumps([script(path) for path in WITH_SPARK]), capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len(WITH_SPARK) > 1
    for path, output in zip(WITH_SPARK, done.stdout.split(NEXT_PAGE + "\n")[:-1], strict=True):
        check_outputs(path, output)


def test_every_module_is_listed_with_its_first_line() -> None:
    modules = [path for path in (ROOT / "src").rglob("*.py") if path.name != "__init__.py"]
    assert len(re.findall(r"^\| `\w+` \| \S", list_modules.table(), flags=re.MULTILINE)) == len(modules)


def test_the_developers_page_names_every_room() -> None:
    """As ``name.py`` or ``name/``, those of ``log/`` too, and each job in a row of ``jobs/``."""
    page = (ROOT / "DEVELOPERS.md").read_text()
    rows = re.findall(r"^\| (`[^|]+) \| ([^|]+) \|$", page, flags=re.MULTILINE)
    named = {name.rstrip("/") for first, _ in rows for name in re.findall(r"`([\w./]+)`", first)}
    package = ROOT / "src/brokerless"
    there = {path.name for path in package.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - named == {"__init__.py", "__main__.py"}
    assert {f"log/{each}" for each in packages_in(package / "log")} <= named
    jobs = " ".join(second for first, second in rows if first.startswith("`jobs/`"))
    assert packages_in(package / "jobs") <= {*re.findall(r"`(\w+)`", jobs)}


def packages_in(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir() if (path / "__init__.py").exists()}


def test_all_decisions_are_listed() -> None:
    listed = re.findall(r"\]\((.*?)\)", (ROOT / "docs" / "decisions" / "README.md").read_text())
    assert listed == [path.name for path in DECISIONS]


@of_files(DECISIONS)
def test_a_decision_has_a_context_a_choice_and_what_was_rejected(path: Path) -> None:
    assert re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", path.name)
    assert re.findall(r"^## (.*)", path.read_text(), flags=re.MULTILINE) == ["Context", "Choice", "Rejected"]


def test_the_demo_says_which_kafka_wrote_its_data() -> None:
    version = (ROOT / "demo" / "kafka-version").read_text().strip()
    assert f"that Kafka {version} wrote" in (ROOT / "README.md").read_text()
    features = state(brokerless.open(ROOT / "demo" / "data").partitions, ["features"])["features"].to_pylist()
    level = next(each["featureLevel"] for each in features if each["name"] == "metadata.version")
    assert METADATA_VERSIONS[level] == version.rpartition(".")[0]


def test_the_cookbook_lists_all_its_tasks() -> None:
    text = (ROOT / "docs" / "cookbook.md").read_text()
    assert re.findall(r"^- \[(.*?)\]\(#", text, re.MULTILINE) == re.findall(r"^## (.*)$", text, re.MULTILINE)
