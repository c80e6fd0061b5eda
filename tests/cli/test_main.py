"""The command line as a whole, as processes where only those can tell."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data, case

import brokerless
from brokerless.cli import main
from brokerless.cli.commands import COMMANDS
from brokerless.findings import Kind, describe_kinds

DATA = broker_data("clean")


def python(*arguments: object, **options: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, timeout=60, **options)  # type: ignore[call-overload]


def test_help_is_there_for_all_and_each(run: Run) -> None:
    for arguments in ([], ["--help"], ["-h"], ["help"]):
        result = run(*arguments)
        assert result.exit_code == 0
        assert all(f"  {name} " in result.out.decode() for name in COMMANDS)
    for name in COMMANDS:
        result = run(name, "--help")
        assert run("help", name).out == result.out
        assert result.exit_code == 0
        examples = result.out.decode().partition("examples:\n")[2]
        assert examples.count(f"brokerless {name} ") >= 2
        assert "\x1b" not in result.out.decode()


def test_the_version_is_the_packages(run: Run) -> None:
    for option in ("--version", "-V"):
        assert run(option).out.decode() == f"brokerless {brokerless.__version__}\n"


def test_a_command_that_there_is_not_is_answered_with_the_nearest(run: Run) -> None:
    for arguments in (["verfy"], ["help", "verfy"]):
        result = run(*arguments)
        assert (result.exit_code, result.out) == (2, b"")
        assert "did you mean verify?" in result.err


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("verfy", "there is no command 'verfy'; did you mean verify? (brokerless --help lists all)"),
        ("rest", "there is no command 'rest'; did you mean restart or restore? (brokerless --help lists all)"),
        ("unlike", "there is no command 'unlike' (brokerless --help lists all)"),
        (
            "--quiet",
            "there is no option --quiet before the command; write it after (brokerless --help lists commands)",
        ),
        ("/var/lib/kafka", "/var/lib/kafka is not a command; to list what is there, use: brokerless ls /var/lib/kafka"),
    ],
)
def test_a_first_argument_that_is_no_command_is_answered_in_one_line(run: Run, argument: str, expected: str) -> None:
    result = run(argument)
    assert (result.exit_code, result.out, result.err) == (2, b"", f"brokerless: {expected}\n")


@pytest.mark.parametrize("arguments", [["cats"], ["--verbose"], ["ls", "--colour", "."], ["ls"]])
def test_a_wrong_command_line_exits_with_2(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.out) == (2, b"")
    assert result.err


def test_options_may_stand_between_paths(run: Run) -> None:
    together = run("cat", "--limit", 1, DATA / "txn-0", DATA / "txn-1")
    assert run("cat", DATA / "txn-0", "--limit", 1, DATA / "txn-1").out == together.out
    assert len(together.lines) == 2


@pytest.mark.parametrize("arguments", [["cat"], ["cat", "--json", "--tail", 1], ["batches"], ["ls"], ["ls", "--json"]])
def test_a_log_that_ends_within_a_batch_misses_something_and_so_exits_with_1(run: Run, arguments: list[object]) -> None:
    log = case("damaged/tail-cut-v2-none-144").log
    result = run(*arguments, log)
    assert result.exit_code == 1
    assert result.out
    assert result.err.startswith(f"{log}, position ")
    assert result.err.count("\n") == 1


@pytest.mark.parametrize("arguments", [["verify"], ["verify", "--json"]])
def test_verify_warns_of_a_cut_off_end_as_kafkas_reader_does_not_throw(run: Run, arguments: list[str]) -> None:
    damaged = case("damaged/tail-cut-v2-none-144")
    assert not [line for line in damaged.expected() if line["type"] == "error"]
    result = run(*arguments, damaged.log)
    assert result.exit_code == 0
    assert "warning" in result.out.decode()


def test_an_interrupt_ends_without_a_traceback() -> None:
    code = """
import sys
from brokerless.cli import main, output

def interrupt(*_):
    raise KeyboardInterrupt

output.Output.open = interrupt
sys.exit(main(sys.argv[1:]))
"""
    result = python("-c", code, "ls", DATA)
    assert (result.returncode, result.stdout, result.stderr) == (130, b"", b"")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_to_end_removes_what_is_half_done(number: int, code: int, tmp_path: Path) -> None:
    """SIGHUP is what a terminal that was closed sends. What started the tests may ignore it, as nohup does."""
    program = f"import signal; signal.signal({int(number)}, signal.SIG_DFL)\n{ENDED}"
    done = python("-c", program, str(int(number)), tmp_path / "half", DATA)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")
    assert not (tmp_path / "half").exists()


def test_a_signal_that_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    code = f"import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)\n{ENDED}"
    assert python("-c", code, str(int(signal.SIGHUP)), tmp_path / "half", DATA).returncode == 0


ENDED = """
import contextlib, signal, sys
from pathlib import Path
from brokerless.cli import main, output

@contextlib.contextmanager
def half_done(path):
    path.mkdir()
    try:
        yield
    finally:
        path.rmdir()

number, path, opened = int(sys.argv[1]), Path(sys.argv[2]), output.Output.open

def end(*arguments, **options):
    with half_done(path):
        signal.raise_signal(number)
    return opened(*arguments, **options)

output.Output.open = end
sys.exit(main(["ls", *sys.argv[3:]]))
"""


def test_an_interrupt_while_a_command_is_imported_ends_without_a_traceback() -> None:
    code = """
import signal, sys
from brokerless.cli import main

class Interrupt:
    def find_spec(self, name, *_):
        if name == "brokerless.format.read.decoder":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
sys.exit(main(sys.argv[1:]))
"""
    result = python("-c", code, "cat", DATA)
    assert (result.returncode, result.stdout, result.stderr) == (130, b"", b"")


@pytest.mark.slow(reason="a process")
def test_an_interrupt_before_there_is_a_command_line_ends_without_a_traceback() -> None:
    code = """
import signal, sys
from brokerless.__main__ import run

class Interrupt:
    def find_spec(self, name, *_):
        if name == "brokerless.cli":
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
run()
"""
    result = python("-c", code, "cat", DATA)
    assert (result.returncode, result.stdout, result.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.slow(reason="a process")
def test_nothing_is_imported_before_an_interrupt_ends_without_a_traceback() -> None:
    code = """
import os, sys

class Interrupt:
    def find_spec(self, name, *_):
        if name not in ("brokerless", "brokerless.__main__"):
            os.kill(os.getpid(), 2)

sys.meta_path.insert(0, Interrupt())
from brokerless.__main__ import run
run()
"""
    result = python("-c", code, "cat", DATA)
    assert (result.returncode, result.stdout, result.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.slow(reason="many processes")
@pytest.mark.parametrize("start", [["-m", "brokerless"], [str(Path(sys.executable).with_name("brokerless"))]])
def test_an_interrupt_at_any_time_of_the_start_ends_without_a_traceback_of_ours(start: list[str]) -> None:
    """Before it comes to any code of a package, Python itself prints one."""
    for delay_ms in range(0, 300, 20):
        with subprocess.Popen(
            [sys.executable, *start, "cat", DATA], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            time.sleep(delay_ms / 1000)
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate()
        assert os.fsencode(Path(brokerless.__file__).parent) not in errors
        assert process.returncode in (-signal.SIGINT, 130, 0) or b"Traceback" in errors


@pytest.mark.parametrize("command", [["verify"], ["verify", "--json"], ["diff"], ["diff", "--json"]])
@pytest.mark.slow(reason="a process")
def test_a_reader_that_goes_away_hides_no_findings(command: list[str]) -> None:
    log = case("damaged/all-crcs-wrong").log
    read, write = os.pipe()
    os.close(read)
    with os.fdopen(write, "wb") as stdout:
        arguments = [*command, str(log), *([str(log)] if command[0] == "diff" else [])]
        process = [sys.executable, "-m", "brokerless", *arguments]
        result = subprocess.run(process, stdout=stdout, stderr=subprocess.PIPE, timeout=60)
    assert (result.returncode, b"Traceback" in result.stderr) == (1, False)


@pytest.mark.slow(reason="a process")
def test_a_reader_that_goes_away_is_no_error() -> None:
    code = f"import sys; from brokerless.cli import main; sys.exit(main(['cat', '--json', {str(DATA)!r}]))"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize("arguments", [["ls"], ["cat", "--help"], ["--help"]])
def test_a_full_disk_is_reported_once(arguments: list[str]) -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("there is no /dev/full here")
    with full.open("wb") as stdout:
        command = [sys.executable, "-m", "brokerless", *arguments, str(DATA)]
        result = subprocess.run(command, stdout=stdout, stderr=subprocess.PIPE, timeout=60)
    assert result.returncode == 2
    assert result.stderr.count(b"\n") == 1
    assert b"No space left" in result.stderr


@pytest.mark.parametrize("arguments", [["cat"], ["cat", "--help"], ["--help"], ["--version"]])
@pytest.mark.skipif(os.name != "posix", reason="a shell closes the output")
def test_a_closed_output_ends_quietly(arguments: list[str]) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", sys.executable, "-m", "brokerless", *arguments, str(DATA)]
    result = subprocess.run(command, stderr=subprocess.PIPE, timeout=60)
    assert (result.returncode, result.stderr) == (2, b"")


@pytest.mark.skipif(os.name != "posix", reason="a shell closes the output")
@pytest.mark.slow(reason="a process")
def test_closed_standard_error_does_not_put_damage_among_data() -> None:
    log = case("damaged/all-crcs-wrong").log
    command = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "brokerless", "cat", str(log)]
    result = subprocess.run(command, stdout=subprocess.PIPE, timeout=60)
    assert (result.returncode, result.stdout) == (1, b"")


def test_python_m_brokerless_is_the_same_command() -> None:
    assert python("-m", "brokerless", "--version").stdout.startswith(b"brokerless ")


@pytest.mark.parametrize(("watch", "taken_apart"), [("", b""), ("sys.setprofile(lambda *_: None)", b"taken apart\n")])
def test_what_is_registered_for_the_end_is_done_and_objects_are_taken_apart_for_a_profiler_alone(
    watch: str, taken_apart: bytes
) -> None:
    code = f"""
import atexit, os, sys
from brokerless.__main__ import run

class Held:
    def __del__(self, write=os.write):
        write(2, b"taken apart\\n")

held = Held()
atexit.register(print, "registered", file=sys.stderr)
{watch}
run()
"""
    result = python("-c", code, "ls", DATA)
    assert (result.returncode, result.stderr) == (0, b"registered\n" + taken_apart)
    assert result.stdout


@pytest.mark.parametrize("arguments", [["ls"], ["ls", "--json"], ["ls", "--segments"], ["--help"]])
def test_the_first_answer_waits_for_nothing_heavy(arguments: list[str]) -> None:
    heavy = "{'numba', 'msgspec', 'pandas', 'pyspark', 'rich', 'typer', 'pydantic', 'fsspec'}"
    code = f"import sys; from brokerless.cli import main; main({[*arguments, str(DATA)]!r}); "
    code += f"print(sorted({heavy} & set(sys.modules)), file=sys.stderr)"
    result = python("-c", code)
    assert result.stderr == b"[]\n"
    assert result.stdout


def test_help_of_reading_commands_imports_no_library() -> None:
    code = "import sys; from brokerless.cli import main; main(['cat', '--help']); print(*sys.modules, file=sys.stderr)"
    result = python("-c", code)
    assert b"--jobs" in result.stdout
    assert not {b"numpy", b"pyarrow", b"numba"} & set(result.stderr.split())


def test_import_brokerless_imports_no_library() -> None:
    code = "import sys; before = {*sys.modules}; import brokerless; "
    code += "print(*{each.split('.')[0] for each in {*sys.modules} - before} - {*sys.stdlib_module_names})"
    assert python("-c", code).stdout == b"brokerless\n"


def test_every_public_name_is_imported_when_it_is_used() -> None:
    import brokerless

    for name in brokerless.__all__:
        value = getattr(brokerless, name)
        assert name == "schemas" or value.__name__ == name
    assert {*dir(brokerless)} - {*brokerless.__all__} == {"__doc__", "__version__", "internals", "spark", "writing"}
    assert {*brokerless.__all__} <= {*dir(brokerless)}


def test_pandas_and_arrows_functions_are_not_waited_for() -> None:
    code = f"""
import sys
from brokerless.cli import main
for arguments in ("cat", "cat --json --tail 3", "cat -f %o_%h_%T_%S", "batches", "verify"):
    main([*arguments.split(), {str(DATA / "segments-0")!r}])
    print(*sorted({{"pandas", "pyarrow.compute"}} & {{*sys.modules}}), arguments, file=sys.stderr)
"""
    result = python("-c", code)
    assert result.stderr.decode().splitlines() == [
        "cat", "cat --json --tail 3", "cat -f %o_%h_%T_%S", "batches", "verify",
    ]  # fmt: skip
    assert result.stdout


def test_nothing_but_a_terminal_gets_progress(run: Run) -> None:
    assert run("verify", DATA / "txn-0").err == ""
    assert main(["ls", str(DATA / "txn-0")]) == 0


def test_help_of_a_kind_says_what_it_means_and_what_to_do(run: Run) -> None:
    result = run("help", "missing-log")
    assert (result.exit_code, result.err) == (0, "")
    first, *lines = result.out.decode().splitlines()
    assert first == "missing-log (error)"
    assert lines[0] == "An index has no log next to it, and no other log has its offsets."
    assert lines[1] == f"what to do: {describe_kinds()[Kind.MISSING_LOG].advice}"
    assert lines[2] == "more: docs/checking.md"


def test_help_of_what_is_neither_a_command_nor_a_kind_suggests_one(run: Run) -> None:
    result = run("help", "missing-logs")
    assert (result.exit_code, result.out) == (2, b"")
    assert "did you mean missing-log" in result.err


@pytest.mark.parametrize(("own", "seen"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "4"}, "4")])
def test_numpy_starts_no_threads_for_matrices_unless_asked_to(own: dict[str, str], seen: str) -> None:
    code = (
        "import os, sys; from brokerless.__main__ import run\n"
        "class Finder:\n"
        "    def find_spec(name, *_):\n"
        "        if name == 'numpy': print(os.environ['OPENBLAS_NUM_THREADS'], file=sys.stderr)\n"
        f"sys.meta_path.insert(0, Finder); sys.argv = ['brokerless', 'ls', {str(DATA)!r}]; run()"
    )
    others = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    assert python("-c", code, env=others | own).stderr.decode().split() == [seen]
