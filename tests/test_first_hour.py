"""The first hour: the commonest mistakes at a terminal, and the commonest questions, by help and site search alone."""

from __future__ import annotations

import gzip
import re
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep
from urllib.parse import quote

import pytest

from brokerless.cli import HELP
from brokerless.cli.commands import COMMANDS
from tests.browser import Browser
from tests.cli.conftest import Run
from tests.cli.conftest import run as run

ROOT = Path(__file__).parents[1]
DEMO = "demo/data"
LOG = f"{DEMO}/orders-0/00000000000000000000.log"
MISTAKES = {
    DEMO: "to list what is there, use: brokerless ls demo/data",
    f"lst {DEMO}": "did you mean ls?",
    f"--json ls {DEMO}": "there is no option --json before the command; write it after",
    "ls nowhere": "nowhere: there is no such file or directory",
    "ls demo/dat": "did you mean demo/data?",
    f"ls {DEMO}/orders-9": "did you mean demo/data/orders-",
    f"export {DEMO}": "--to: give a directory to write to",
    f"export {DEMO} --to out --format iceberg": "did you mean --as iceberg",
    "ls demo": "give one of them, or --all-below for all",
    "ls": "missing PATH",
    f"ls {DEMO} --version": "write: brokerless --version",
    f"cat {DEMO} --limt 5": "did you mean --limit?",
    f"cat {DEMO} -t order": "no topic order (did you mean orders?)",
    f"cat {DEMO} -t": "-t/--topic needs a value",
    f"cat {DEMO} -p one": "'one' is not a whole number",
    f"cat {DEMO} --from lately": "use one such as 2024-05-01T12:00:00Z",
    f"cat {DEMO} -o 42": "--offset 42",
    f"cat {DEMO} --timezone Europe/Belrin": "use one such as Europe/Berlin, +02:00 or local",
    f"cat {DEMO} --offset 10-20": "a range (42:50, without 50)",
    f"cat {DEMO} --json -f %k": "--json, --csv and --template exclude each other; use one of them",
    f"cat {DEMO}/orders-0/leader-epoch-checkpoint": "give a .log file, a partition's directory",
    f"sql {DEMO} SELECT": "write the query first, and then the path",
    f"sql SELECT+*+FROM+order {DEMO}": 'write "order" in double quotes',
    f"sql SELECT+offset+FROM+orders {DEMO}": 'write "offset" in double quotes',
    f"sql FROM+ordrs {DEMO}": 'Did you mean "orders"?',
    f"salvage {DEMO}": "missing --to",
    f"compact {DEMO}": "use --to DIRECTORY, or --dry-run",
    f"convert {DEMO} --to out --codec zst": "did you mean zstd?",
    f"convert {DEMO} --to {DEMO}": "nothing to convert; use --format, --codec, --batch-size or --segment-bytes",
    f"trim {DEMO}": "missing --free, --retention or --before; give one of them",
    f"trim {DEMO} --free 10 GB": "write a size as one word: 10GB",
    f"report {DEMO}": "report needs either -o FILE, for the page, or --json",
    f"restore {DEMO} -t orders": "missing --bootstrap-servers or --to; give one of them",
    f"erase {DEMO} --to out": "select the records by one of --key KEY, --keys FILE",
    f"prove {DEMO}": "give the manifest that erase wrote",
    f"explain {DEMO}": "this is a directory; give a file in it",
    f"export {DEMO} --to out --as ice": "did you mean iceberg?",
    f"load {LOG} --to out": "not JSON, of which each line is an object, and no Parquet file",
    f"pipeline {DEMO}": "give --to",
    f"cat {DEMO} -t orders,users": "repeat the option for each of several: -t orders -t users",
    f"cat {DEMO}/ord*": "a pattern is for the shell, which expands it where it is not quoted",
    f"export {DEMO} --to out --iceberg": "did you mean --as iceberg?",
    f"sql {DEMO} {DEMO} SELECT+1": "unexpected SELECT 1; write: brokerless sql [OPTIONS] QUERY PATH",
    f"report {DEMO} -o demo": "demo: this is a directory; name a file in it, such as report.html",
    "help segment-overlp": "did you mean segment-overlap?",
}
"""Command lines (+ is a space within an argument), and what to do next."""
QUESTIONS = {
    "broker does not start": ("checking", "restart", "next start"),
    "lost a disk": ("runbook", "salvage", "damaged partitions"),
    "find a message": ("reading", "cat", "find a key, a text, a time"),
    "size with zstd": ("size", "size", "other formats and codecs"),
    "to another cluster": ("restoring", "restore", "running cluster"),
    "Iceberg table": ("tables", "export", "Iceberg"),
    "erase a user": ("erasing", "erase", "GDPR"),
    "what does this byte mean": ("explain", "explain", "byte by byte"),
    "who writes most": ("size", "size", "who writes most"),
    "consumer stuck": ("internal-topics", "audit", "stuck consumers"),
    "retention does not delete": ("checking", "audit", "with advice"),
    "disk is full": ("recovering", "trim", "full disk"),
    "topic deleted by accident": ("cookbook", "ls", "deleted"),
    "records of a time range as CSV": ("cookbook", "cat", "CSV"),
    "lag of each group": ("cookbook", "internals", "lag"),
    "deleted topic": ("cookbook", "ls", "deleted"),
    "time range csv": ("cookbook", "cat", "CSV"),
    "consumer lag": ("cookbook", "internals", "lag"),
}
"""What people ask: the page, and the command with words of its line in the first help."""


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_answered_with_what_to_do_next(run: Run, line: str) -> None:
    result = run(*(word.replace("+", " ") for word in line.split()))
    assert (result.exit_code, result.out) == (2, b"")
    assert MISTAKES[line] in result.err
    assert "Traceback" not in result.err
    assert result.err.count("\n") <= 2


def test_a_compressed_log_is_named_with_the_command_that_reads_it(tmp_path: Path) -> None:
    data = gzip.compress(Path(LOG).read_bytes())
    (tmp_path / "a.log.gz").write_bytes(data)
    for path, expected in (("-", "zcat FILE | brokerless cat -"), (tmp_path / "a.log.gz", "zcat")):
        command = [sys.executable, "-m", "brokerless", "cat", path]
        result = subprocess.run(command, input=data, capture_output=True, timeout=60)
        assert result.returncode == 1
        assert expected in result.stderr.decode()
        assert "Traceback" not in result.stderr.decode()


@pytest.mark.parametrize("question", QUESTIONS)
def test_the_first_help_names_the_command(question: str) -> None:
    _, command, words = QUESTIONS[question]
    lines = [line for line in HELP.splitlines() if line.startswith(f"  {command} ")]
    assert any(words in line for line in lines)
    assert words in COMMANDS[command]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site's guides; what the search leaves out, and Python's reference, take three times as long."""
    root = tmp_path_factory.mktemp("site")
    left_out = "exclude_patterns=decisions/**,modules.md,reference.rst"
    build = [
        sys.executable,
        "-m",
        "sphinx",
        "--quiet",
        "-D",
        left_out,
        "-d",
        root / "trees",
        ROOT / "docs",
        root / "html",
    ]
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    return root / "html"


def test_the_site_s_search_leads_to_the_right_page_first(browser: Browser, site: Path) -> None:
    found: dict[str, str] = {}
    for question in QUESTIONS:
        browser.driver.get(f"{(site / 'search.html').as_uri()}?q={quote(question)}")
        end = monotonic() + 30
        links: list[str] = []
        while not links:
            assert monotonic() < end, f"nothing is found for {question!r}"
            links = browser.run(
                "return [...document.querySelectorAll('#search-results li a')].map((each) => each.getAttribute('href'))"
            )
            sleep(0.05)
        found[question] = re.split("[.#]", links[0])[0]
    assert found == {question: page for question, (page, *_) in QUESTIONS.items()}


INDEX = (ROOT / "docs" / "index.md").read_text()
GUIDES = [
    page
    for part in re.findall(r"```\{toctree\}\n(.*?)```", INDEX, re.DOTALL)
    if "When something is wrong" in part or "Tasks" in part
    for page in part.split("\n\n")[1].split()
    if page not in ("cookbook", "benchmarks", "scale")  # a list of tasks, and figures
]


@pytest.mark.parametrize("page", GUIDES)
def test_a_guide_s_first_screen_has_the_command(page: str) -> None:
    first_screen = "\n".join((ROOT / "docs" / f"{page}.md").read_text().splitlines()[:22])
    used = re.search(rf"brokerless ({'|'.join(COMMANDS)}) |format\(\"brokerless\"\)", first_screen)
    assert used is not None
    assert len(GUIDES) > 14
