"""The scripts are run by the real shells: what the Tab key completes there, not what the script says."""

from __future__ import annotations

import os
import pty
import re
import selectors
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from tests.cli.conftest import Run

from brokerless.cli.commands import COMMANDS

_BASH = r"""
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
[[ $(complete -p brokerless) =~ -F\ ([^ ]+) ]]
"${BASH_REMATCH[1]}" brokerless "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"""
_FISH = 'source $argv[1]; complete -C "$argv[2]" | string split -f1 \\t'
_ZSH = (
    "PS1='ready> ' LISTMAX=999; unsetopt zle_bracketed_paste prompt_sp list_types; autoload -Uz compinit; "
    "compinit -u -D; zstyle ':completion:*' verbose no; bindkey '^I' list-choices; eval \"$(cat {script})\"\n"
)
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")
LINES = [
    ("brokerless ve", {"verify"}),
    ("brokerless c", {"carve", "cat", "check", "cluster", "compact", "completion", "convert"}),
    ("brokerless help rest", {"restart", "restore"}),
    ("brokerless completion ", {"bash", "zsh", "fish"}),
    ("brokerless cat --t", {"--tail", "--template", "--timezone", "--topic"}),
    ("brokerless convert --codec ", {"none", "gzip", "snappy", "lz4", "zstd"}),
    ("brokerless export --compression z", {"zstd"}),
    ("brokerless audit --min-severity ", {"info", "warning", "error"}),
    ("brokerless cat --isolation read_committed de", {"demo", "demo.txt"}),
    ("brokerless cat demo --is", {"--isolation"}),
    ("brokerless cat demo -t orders de", {"demo", "demo.txt"}),
    ("brokerless salvage demo --to de", {"demo"}),
    ("brokerless carve de", {"demo", "demo.txt"}),
    ("brokerless load de", {"demo", "demo.txt"}),
]


def with_shell(name: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(name) is None, reason=f"{name} is not installed here")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with a directory and a file whose names begin alike."""
    (tmp_path / "demo").mkdir()
    (tmp_path / "demo.txt").touch()
    (tmp_path / "other").touch()
    return tmp_path


def write_script(run: Run, shell: str, place: Path) -> Path:
    result = run("completion", shell)
    assert (result.exit_code, result.err) == (0, "")
    script = place / "script"
    script.write_bytes(result.out)
    return script


@pytest.mark.parametrize(("line", "expected"), LINES)
@with_shell("bash")
def test_bash_completes(run: Run, place: Path, line: str, expected: set[str]) -> None:
    script = write_script(run, "bash", place)
    command = ["bash", "--norc", "-c", _BASH, "bash", str(script), *re.split(" ", line)]
    result = subprocess.run(command, cwd=place, capture_output=True, text=True, timeout=60)
    assert set(result.stdout.split()) == expected, result.stderr


@pytest.mark.parametrize(("line", "expected"), LINES)
@with_shell("fish")
def test_fish_completes(run: Run, place: Path, line: str, expected: set[str]) -> None:
    script = write_script(run, "fish", place)
    command = ["fish", "--no-config", "-c", _FISH, str(script), line]
    environment = os.environ | {"HOME": str(place), "XDG_DATA_HOME": str(place / "other-data")}
    result = subprocess.run(command, cwd=place, env=environment, capture_output=True, text=True, timeout=60)
    assert {each.rstrip("/") for each in result.stdout.split()} == expected, result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_script_is_installed_for_one_user(
    run: Run, shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"HOME": tmp_path, "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}.items():
        monkeypatch.setenv(name, str(value))
    result = run("completion", shell, "--install")
    (written,) = (each for each in tmp_path.rglob("*") if each.is_file())
    assert result.exit_code == 0
    assert result.lines[0].startswith(f"written to {written}; ")
    assert written.read_bytes() == run("completion", shell).out
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "file"))
    refused = run("completion", shell, "--install")
    assert (refused.exit_code, refused.err.count("\n")) == (2, 1)


@with_shell("fish")
def test_fish_finds_what_was_installed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"HOME": tmp_path, "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}.items():
        monkeypatch.setenv(name, str(value))
    run("completion", "fish", "--install")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "brokerless").write_text("")
    (tmp_path / "bin" / "brokerless").chmod(0o755)
    environment = {"HOME": str(tmp_path), "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    command = ["fish", "-c", 'complete -C "brokerless ve" | string split -f1 \\t']
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == ["verify"], result.stderr


@with_shell("zsh")
def test_zsh_finds_what_was_installed(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"HOME": tmp_path, "XDG_DATA_HOME": "", "XDG_CONFIG_HOME": ""}.items():
        monkeypatch.setenv(name, str(value))
    (added,) = re.findall(r"fpath\+=\(.*?\)", run("completion", "zsh", "--install").out.decode())
    program = f"{added}; autoload -Uz compinit; compinit -u -D; print $_comps[brokerless]"
    result = subprocess.run(["zsh", "-f", "-c", program], capture_output=True, text=True, timeout=60)
    assert result.stdout.split() == ["_brokerless"], result.stderr


TOPICS = [
    ("brokerless cat logs -t ", {"orders", "orders.eu", "payments"}),
    ("brokerless cat logs -t ord", {"orders", "orders.eu"}),
    ("brokerless ls --topic p", {"pets"}),
    ("brokerless verify logs other --topic ord", {"orders", "orders.eu"}),
]


@pytest.fixture
def topics(tmp_path: Path) -> Path:
    for name in ("orders-0", "orders-1", "orders.eu-12", "payments-0", "payments-0.1a2b-stray", "notes", "x-"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    (tmp_path / "pets-3").mkdir()
    (tmp_path / "other").touch()
    return tmp_path


@pytest.mark.parametrize(("line", "expected"), TOPICS)
@with_shell("bash")
def test_bash_completes_topics(run: Run, topics: Path, line: str, expected: set[str]) -> None:
    script = write_script(run, "bash", topics)
    command = ["bash", "--norc", "-c", _BASH, "bash", str(script), *re.split(" ", line)]
    result = subprocess.run(command, cwd=topics, capture_output=True, text=True, timeout=60)
    assert set(result.stdout.split()) == expected, result.stderr


@with_shell("zsh")
def test_zsh_completes_topics(run: Run, topics: Path) -> None:
    script = write_script(run, "zsh", topics)
    shown = type_into_zsh(topics, script, "brokerless cat logs -t ")
    assert {"orders", "orders.eu", "payments"} == set(shown.split())


@with_shell("zsh")
def test_zsh_completes(run: Run, place: Path) -> None:
    script = write_script(run, "zsh", place)
    for line, expected in LINES:
        if len(expected) > 1:  # zsh inserts a single match, and lists none
            shown = type_into_zsh(place, script, line)
            assert expected <= set(shown.replace("/", " ").split()), (line, shown)
            assert not {"other", "script"} & set(shown.split()), (line, shown)


def type_into_zsh(place: Path, script: Path, line: str) -> str:
    """What zsh lists after a line and the Tab key."""
    mine, theirs = pty.openpty()
    environment = os.environ | {"TERM": "dumb", "HOME": str(place), "COLUMNS": "200"}
    process = subprocess.Popen(
        ["zsh", "-f", "-i"],
        cwd=place,
        env=environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        read_until(mine, "% |# ")
        os.write(mine, _ZSH.replace("{script}", str(script)).encode())
        read_until(mine, r"\nready> ")
        os.write(mine, f"{line}\t".encode())
        shown = read_until(mine, re.escape(line) + r".*\n(.|\n)*" + re.escape(line.rstrip()))
        return shown.split("\n", 1)[-1].rpartition("\n")[0]
    finally:
        process.kill()
        process.wait(10)
        os.close(mine)


def read_until(file: int, pattern: str) -> str:
    shown, until = "", time.monotonic() + 60
    output = selectors.PollSelector()
    output.register(file, selectors.EVENT_READ)
    while not re.search(pattern, shown) and time.monotonic() < until:
        if output.select(0.5):
            shown = _ESCAPE.sub("", shown + os.read(file, 1 << 16).decode(errors="replace")).replace("\r", "")
    assert re.search(pattern, shown), shown
    return shown


def test_every_command_has_its_options_in_every_script(run: Run) -> None:
    for shell in ("bash", "zsh", "fish"):
        script = run("completion", shell).out.decode()
        assert all(name in script for name in COMMANDS)


def test_an_unknown_shell_is_answered_with_those_that_there_are(run: Run) -> None:
    result = run("completion", "bsh")
    assert (result.exit_code, result.out) == (2, b"")
    assert "'bsh' is not one of bash, zsh, fish; did you mean bash?" in result.err
