"""``brokerless completion``: prints the completion script of a shell."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import Any, cast

from brokerless.cli.commands import COMMANDS
from brokerless.cli.output import CLEAN
from brokerless.cli.parser import Parser, load_command

DESCRIPTION = """\
Prints a script with which the Tab key completes commands, options, their choices, paths, and topics after -t (these in
bash and zsh).

The examples are the lines for ~/.bashrc, ~/.zshrc (after compinit) and ~/.config/fish/config.fish.
"""
EXAMPLES = """\
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
    pass


def run(options: Namespace) -> int:
    import shtab

    script = shtab.complete(_parser_of_all(), options.shell, preamble=cast("Any", _TOPICS))
    if options.shell == "zsh":
        script = script.replace('"(*):', '"*:')  # shtab 1.13 completes only the first of several paths
    sys.stdout.write(script + "\n")
    return CLEAN


def _parser_of_all() -> Parser:
    """What ``brokerless`` reads one command at a time, as one parser."""
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
