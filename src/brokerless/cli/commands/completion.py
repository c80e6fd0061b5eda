"""``brokerless completion``: prints the completion script of a shell."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

from brokerless.cli.commands import COMMANDS
from brokerless.cli.output import CLEAN
from brokerless.cli.parser import Parser, load_command

DESCRIPTION = """\
Prints a script with which the Tab key completes commands, options, their choices, and paths.

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


def add_paths(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=_SHELLS, metavar="SHELL", help="bash, zsh or fish")


def add_options(parser: ArgumentParser) -> None:
    pass


def run(options: Namespace) -> int:
    import shtab

    script = shtab.complete(_parser_of_all(), options.shell)
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
    commands.add_parser("help", help="explain a command").add_argument("command", choices=tuple(COMMANDS))
    return parser
