"""Parses a command's arguments with argparse; a mistake is answered in one line, with the nearest option."""

from __future__ import annotations

import re
import sys
from argparse import Action, ArgumentError, ArgumentParser, Namespace, RawDescriptionHelpFormatter
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NoReturn, Protocol, cast

from brokerless.cli.help_pages import print_help
from brokerless.cli.options import add_paths
from brokerless.cli.output import UNUSABLE, Output, complain
from brokerless.cli.suggestions import did_you_mean, meant
from brokerless.errors import UsageError
from brokerless.log.storage.paths import named

_MAY_BEGIN_WITH_DASH = ("--from", "--until", "--before")
_NUMBER = re.compile(r"-\d+|-\d*\.\d+")
_PLAINLY = (
    (re.compile(r"argument (\S+): expected (?:one|at least one) argument"), r"\1 needs a value"),
    (re.compile(r"argument (\S+): ignored explicit argument .*"), r"\1 takes no value"),
    (re.compile(r"argument (\S+): not allowed with argument (\S+)"), r"\1 and \2 exclude each other; use one of them"),
    (re.compile(r"argument (\S+): (.*)", re.DOTALL), r"\1: \2"),
    (re.compile(r"the following arguments are required: (.*)"), r"missing \1"),
    (re.compile(r"one of the arguments (\S+) (\S+) is required"), r"missing \1 or \2; give one of them"),
    (re.compile(r"one of the arguments (\S+) (\S+) (\S+) is required"), r"missing \1, \2 or \3; give one of them"),
    (re.compile(r"unrecognized arguments: ([kKMGT]i?B)"), r"unexpected \1; write a size as one word: 10\1"),
    (re.compile(r"unrecognized arguments: (.*)", re.DOTALL), r"unexpected \1"),
)
"""argparse's messages, and what they mean."""


SHARED = frozenset(
    {
        "--all-below", "--as-it-lies", "--exclude-internal", "--help", "--include", "--jobs", "--json", "--key-format",
        "--key-pair", "--layout", "--max-batch-bytes", "--no-pager", "--partition", "--remote", "--schemas", "--spark",
        "--timezone", "--topic", "--value-format", "--wide",
    }
)  # fmt: skip
"""Options of many commands, which their help lists last."""


class Command(Protocol):
    """A module of a command. ``DESCRIPTION`` and ``EXAMPLES`` are for its help. One that reads something else than logs
    has a function ``add_paths(parser)``; one without records for programs has ``HAS_JSON = False``, one without tables
    ``HAS_TABLES = False``."""

    DESCRIPTION: str
    EXAMPLES: str

    def add_options(self, parser: ArgumentParser) -> None: ...

    def run(self, options: Namespace, output: Output) -> None: ...


class _Formatter(RawDescriptionHelpFormatter):
    """Writes ``-t, --topic NAME`` as Python 3.13 does; others repeat the value."""

    def _format_action_invocation(self, action: Action) -> str:
        if not action.option_strings or action.nargs == 0:
            return super()._format_action_invocation(action)
        return f"{', '.join(action.option_strings)} {self._format_args(action, action.dest.upper())}"


class Parser(ArgumentParser):
    """The parser of one command. Options cannot be abbreviated: a script stays right when an option is added."""

    def __init__(self, prog: str, **_: Any) -> None:
        super().__init__(prog=prog, formatter_class=_Formatter, allow_abbrev=False)
        self.color = False  # from Python 3.14 on, argparse would colour the help

    def add_command(self, command: Command) -> None:
        """Description, options and examples of a command."""
        self.description = command.DESCRIPTION
        self.epilog = f"examples:\n{command.EXAMPLES}"
        getattr(command, "add_paths", add_paths)(self)
        if getattr(command, "HAS_JSON", True):
            self.add_argument("--json", action="store_true", help="JSON Lines, one object a line, for programs")
        if getattr(command, "HAS_TABLES", True):
            self.add_argument(
                "--wide", action="store_true", help="all columns, and lines unwrapped, in a narrow terminal too"
            )
        self.add_argument("--no-pager", action="store_true", help="no pager for what is longer than the terminal")
        command.add_options(self)
        self._positionals.title = "arguments"
        needed = [f"{each.option_strings[0]} {each.metavar}" for each in self._get_optional_actions() if each.required]
        paths = [f"{each.metavar}{'...' * (each.nargs == '+')}" for each in self._get_positional_actions()]
        self._shared_last()
        self.usage = " ".join([self.prog, "[OPTIONS]", *needed, *paths])

    def _shared_last(self) -> None:
        """A command's own options are what somebody looks for; those that many commands have come after them."""
        own = self._optionals._group_actions
        shared = [each for each in own if not SHARED.isdisjoint(each.option_strings)]
        if len(shared) < len(own):
            group = self.add_argument_group("options of several commands")
            group._group_actions.extend(shared)
            own[:] = [each for each in own if each not in shared]

    @property
    def own_actions(self) -> list[Action]:
        """The options that few commands have."""
        optional = self._get_optional_actions()
        return [each for each in optional if SHARED.isdisjoint(each.option_strings)]

    def check_options(self, arguments: Sequence[str]) -> None:
        """Refuses the first option that does not exist, before what is missing is reported."""
        for argument in arguments:
            name = argument.partition("=")[0]
            is_option = name.startswith("-") and name != "-" and not re.search(r"\s", name)
            if not is_option or _NUMBER.fullmatch(name) or name in self._option_string_actions:
                continue
            if not name.startswith("--") and name[:2] in self._option_string_actions:  # -n5, -qp1
                continue
            known = [each for each in self._option_string_actions if each.startswith("--")]
            if name == "--version":
                self.error("it has the version of brokerless; write: brokerless --version")
            hint = "" if len(name) == 2 else did_you_mean(f"--{name.lstrip('-')}", known)
            hint = meant(self.prog.rpartition(" ")[2], name) or hint
            if not hint and len(name) > 2 and not name.startswith("--"):
                hint = f"write a path that begins with a dash as ./{name}"
            self.error(f"there is no option {name}" + (f"; {hint}" if hint else ""))

    @property
    def actions(self) -> list[Action]:
        """All options and paths."""
        return self._actions

    def _check_value(self, action: Action, value: Any) -> None:
        if action.choices is None or value in action.choices:
            return
        choices = list(map(str, action.choices))
        hint = did_you_mean(str(value), choices)
        text = f"{value!r} is not one of {', '.join(choices)}"
        raise ArgumentError(action, f"{text}; {hint}" if hint else text)

    def error(self, message: str) -> NoReturn:
        for pattern, plain in _PLAINLY:
            if pattern.fullmatch(message):
                message = pattern.sub(plain, message)
                break
        form = f"; write: {self.usage}" if message.startswith("unexpected") else ""
        complain(f"{self.prog}: {message}{form}")
        complain(f"{self.prog} --help lists all options, with examples")
        sys.exit(UNUSABLE)

    def print_help(self, file: Any = None) -> None:
        """argparse would ignore errors in writing the help."""
        print_help(self.format_help())


def load_command(name: str) -> Command:
    """Return the module of a command, imported only now."""
    return cast("Command", import_module(f"brokerless.cli.commands.{name}"))


def help_of(name: str) -> str:
    """Return the help of a command, with a line for each option."""
    parser = Parser(prog=f"brokerless {name}")
    parser.add_command(load_command(name))
    parser.formatter_class = partial(_Formatter, width=10_000)
    return parser.format_help()


def parse(name: str, command: Command, arguments: Sequence[str]) -> Namespace:
    """Reads a command's arguments; exits through ``SystemExit`` for ``--help`` and for mistakes."""
    parser = Parser(prog=f"brokerless {name}")
    parser.add_command(command)
    options, paths = _split(arguments)
    options = list(_join(options))
    parser.check_options(options)
    parsed = parser.parse_intermixed_args([*options, *paths])
    try:
        for each in getattr(parsed, "paths", ()):
            named(each)
    except UsageError as error:
        parser.error(str(error))
    return parsed


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Everything after ``--`` is a path, which argparse does not see where options and paths are mixed."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    paths = [f"./{each}" if each.startswith("-") and each != "-" else each for each in arguments[end + 1 :]]
    return list(arguments[:end]), paths


def _join(arguments: Sequence[str]) -> Iterator[str]:
    """argparse takes ``--from -1h`` for two options, but not ``--from=-1h``."""
    remaining = iter(arguments)
    for argument in remaining:
        value = next(remaining, None) if argument in _MAY_BEGIN_WITH_DASH else None
        yield argument if value is None else f"{argument}={value}"
