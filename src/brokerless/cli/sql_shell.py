"""The shell of ``brokerless sql``: a prompt with history and completion."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from brokerless import arrow
from brokerless.cli.output import Output
from brokerless.errors import BrokerlessError, UsageError, missing_libraries
from brokerless.progress import Say
from brokerless.sql.session import name_of

if TYPE_CHECKING:
    from brokerless.sql.session import Session

HELP = """\
Statements end with ; and may take several lines. Ctrl-C drops a line, or stops a query; Ctrl-D ends.
.tables        all tables and topics, with their columns
.schema NAME   the columns of a table or topic, with their types; .schema alone, of all
.mode MODE     show results as a table, as lines (a line for each column), as csv or as json
.read FILE     run the statements and commands in a file
.help          this
.quit, .exit   end"""
_PLAIN = re.compile("[a-z_][a-z0-9_]*")
_COMMAND = re.compile(r"\.[a-z]+( .*)?;?")
_SCHEMA = re.compile(r"\.schema\s+(\S.*)")
_WORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "HAVING", "JOIN", "LEFT JOIN", "USING", "AND", "OR"),
    *("NOT", "IN", "IS NULL", "BETWEEN", "LIKE", "AS", "DISTINCT", "CASE", "WHEN", "THEN", "ELSE", "END", "DESCRIBE"),
    *("count", "sum", "min", "max", "avg", "arg_max", "date_trunc", "time_bucket", "text_of", "json_of"),
)


def run_shell(session: Session, run: Say, output: Output) -> None:
    """Reads statements and commands at a terminal and passes each to ``run``, until .quit or the end. Mistakes are
    printed."""
    prompt = _prompt(session)
    output.line("Statements end with ;  .help says more")
    while True:
        try:
            text = prompt.prompt("sql> ", prompt_continuation="...> ").strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        if text in (".quit", ".exit"):
            return
        try:
            if text:
                run(text)
        except BrokerlessError as error:
            output.say(str(error))
        except KeyboardInterrupt:
            output.say("stopped")


def answer(session: Session, command: str) -> Iterator[str]:
    """Yield the lines that a command of the shell prints."""
    match command.rstrip(";").strip():
        case ".tables":
            for name, columns in session.columns().items():
                yield f"{quoted(name)}: {', '.join(map(quoted, columns))}"
        case ".help":
            yield HELP
        case ".schema":
            for name in session.columns():
                yield f"{quoted(name)}:"
                yield from (f"  {line}" for line in _described(session, name))
        case other if (named := _SCHEMA.fullmatch(other)) is not None:
            name = named[1].strip('"')
            if name not in session.columns():
                raise UsageError(f"there is no table or topic {name}; .tables lists them")
            yield from _described(session, name)
        case other:
            yield (
                f"there is no command {other}; there are .tables, .schema, .mode, .read, .help and .quit (a result is "
                "written to a file with brokerless sql -o FILE)"
            )


def _described(session: Session, name: str) -> Iterator[str]:
    described = session.query(f"DESCRIBE {name_of(name)}")
    for row in (row for batch in described or () for row in arrow.rows(batch)):
        yield f"{quoted(row['column_name'])}: {row['column_type']}"


def blocks(text: str) -> Iterator[str]:
    """Yield a text's commands (``.tables``), each by itself, and the statements between them; none is empty. A line
    within a statement is no command; nothing comes after ``.quit``."""
    statements = ""
    for line in text.splitlines(keepends=True):
        if not _COMMAND.fullmatch(line.strip()) or not is_complete(statements):
            statements += line
            continue
        if statements.strip():
            yield statements
        statements = ""
        if line.strip().startswith((".quit", ".exit")):
            return
        yield line.strip()
    if statements.strip():
        yield statements


def quoted(name: str) -> str:
    """Return a name as it is written in a query."""
    return name if _PLAIN.fullmatch(name.lower()) and name.lower() != "offset" else name_of(name)


def is_complete(text: str) -> bool:
    """Return whether Enter ends what was typed, rather than beginning its next line."""
    text = text.strip()
    return not text or text.startswith(".") or text.endswith(";")


def completions(names: Iterable[str], before: str) -> list[str]:
    """Return what a word may become of which ``before`` was typed, in order."""
    typed = before.lower().lstrip('"')
    return sorted({each for each in names if each.lower().lstrip('"').startswith(typed)}) if typed else []


def history_file() -> Path:
    """Return where the statements that were typed are kept: in the user's state directory (XDG)."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "brokerless" / "sql_history"


def _prompt(session: Session) -> Any:
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import Completer, Completion
        from prompt_toolkit.filters import Condition
        from prompt_toolkit.history import FileHistory, InMemoryHistory
        from prompt_toolkit.key_binding import KeyBindings
    except ImportError as error:
        raise missing_libraries("without a query, a shell opens, which needs prompt-toolkit", "sql") from error
    columns = session.columns()
    names = {*_WORDS, ".tables", ".schema", ".mode", ".read", ".help", ".quit", *map(quoted, columns)}
    names.update(quoted(each) for own in columns.values() for each in own)

    class Names(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterator[Any]:
            word = re.search(r'[\w."-]*$', document.text_before_cursor)
            before = word[0] if word else ""
            for each in completions(names, before):
                yield Completion(each, -len(before))

    keys = KeyBindings()
    file = history_file()
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        history: Any = FileHistory(str(file))
    except OSError:
        history = InMemoryHistory()
    prompt: Any = PromptSession(
        history=history, completer=Names(), complete_while_typing=False, key_bindings=keys, multiline=True
    )
    ends = Condition(lambda: is_complete(prompt.default_buffer.text))
    keys.add("enter", filter=ends)(lambda event: event.current_buffer.validate_and_handle())
    return prompt
