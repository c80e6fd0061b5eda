"""``brokerless completion``: prints the completion script of a shell, or installs it."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from typing import Any, cast

from brokerless.cli.commands import COMMANDS
from brokerless.cli.output import Output
from brokerless.cli.parser import Parser, load_command
from brokerless.log.storage.atomic import write_file
from brokerless.log.storage.write_errors import unwritable
from brokerless.text import show_name

DESCRIPTION = """\
Prints a script with which the Tab key completes commands, options, their choices, paths, and topics after -t (these in
bash and zsh).

With --install, the script is written to where the shell looks for it, for this user alone, and the output says where
that is; without a start of Python it is there in every new shell. The other examples are lines for ~/.bashrc, ~/.zshrc
(after compinit) and ~/.config/fish/config.fish.
"""
EXAMPLES = """\
  brokerless completion bash --install
  eval "$(brokerless completion bash)"
  eval "$(brokerless completion zsh)"
  brokerless completion fish | source
"""
HAS_JSON = False
HAS_TABLES = False
_SHELLS = ("bash", "zsh", "fish")
_COMPLETES = {"PATH": "FILE", "FILE": "FILE", "DIRECTORY": "DIRECTORY"}
"""What stands for a path in the help, and shtab's name of what completes it."""

_LIST_TOPICS = """
# The topics of the log directories on the command line, or of the current one, by the names of their directories.
_brokerless_list_topics() {
  local each at
  local -a places
  for each in "$@"; do
    each="${each/#\\~/$HOME}"
    [ -d "$each" ] && places+=("$each")
  done
  [ "${#places[@]}" = 0 ] && places=(.)
  for at in "${places[@]}"; do
    command ls -1 -- "$at" 2>/dev/null
  done | command sed -n 's/-[0-9]\\{1,\\}$//p' | command sort -u
}
"""
_TOPICS = {
    "bash": _LIST_TOPICS
    + """
_brokerless_topics() {
  compgen -W "$(_brokerless_list_topics "${COMP_WORDS[@]:2}")" -- "$1"
}
""",
    "zsh": _LIST_TOPICS
    + """
_brokerless_topics() {
  local -a topics
  topics=("${(@f)$(_brokerless_list_topics "${(@)words[2,-1]}")}")
  compadd -a topics
}
""",
}
"""What completes topics, without a start of Python."""
_COMPLETE_TOPICS = {"bash": "_brokerless_topics", "zsh": "_brokerless_topics"}


def add_paths(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help="bash, zsh or fish")


def add_options(parser: ArgumentParser) -> None:
    help_of_install = "write the script to where the shell finds it, in this user's home"
    parser.add_argument("--install", action="store_true", help=help_of_install)


def run(options: Namespace, output: Output) -> None:
    import shtab

    script = shtab.complete(_parser_of_all(), options.shell, preamble=cast("Any", _TOPICS))
    if options.shell == "zsh":
        script = script.replace('"(*):', '"*:')  # shtab 1.13 completes only the first of several paths
    if not options.install:
        sys.stdout.write(script + "\n")
        return
    place, more = _place_of(options.shell)
    with unwritable(place):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_file(place, f"{script}\n".encode())
    output.prose(f"written to {show_name(str(place))}; {more}")


def _place_of(shell: str) -> tuple[Path, str]:
    """Say where a shell looks for a script of this user, and what else has to be there."""
    home = Path.home()
    data = Path(os.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    if shell == "fish":
        config = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
        return config / "fish" / "completions" / "brokerless.fish", "new shells have it"
    if shell == "zsh":
        functions = data / "zsh" / "site-functions"
        return functions / "_brokerless", f"add fpath+=({functions}) to ~/.zshrc, before compinit"
    directory = data / "bash-completion" / "completions"
    return directory / "brokerless", "new shells have it where the package bash-completion is installed"


def _parser_of_all() -> Parser:
    """Return what ``brokerless`` reads one command at a time, as one parser."""
    import shtab

    parser = Parser("brokerless")
    parser.add_argument("-V", "--version", action="store_true", help="show the version")
    commands = parser.add_subparsers(parser_class=Parser)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text)
        command.add_command(load_command(name))
        command.description = text
        for action in command.actions:
            completes = _COMPLETES.get(str(action.metavar))
            if completes is not None:
                vars(action)["complete"] = getattr(shtab, completes)
            if action.dest == "topic" and "-t" in action.option_strings:
                vars(action)["complete"] = _COMPLETE_TOPICS
    commands.add_parser("help", help="explain a command").add_argument("command", choices=tuple(COMMANDS))
    return parser
