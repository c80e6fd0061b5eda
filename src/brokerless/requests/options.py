"""Makes a request of its options, and from it the keywords, the checks and the docstring of a function of Python.

The command line is made from the same options by ``cli.requests``.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar, dataclass_transform

from brokerless.errors import UsageError
from brokerless.requests.option_types import OptionType

P = ParamSpec("P")
Own = TypeVar("Own")
RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")
Class = TypeVar("Class", bound=type[Any])
_WIDTH = 112
"""Columns of a line of a docstring, without its margins."""
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
_PATTERN = re.compile(r"'?([^\s'(),;]*[*\\][^\s'();]*)'?")
"""A pattern such as ``click*`` or ``\\.``, quoted or not, which a docstring marks as code."""
_OF_COMMANDS = re.compile(r"(; | \()?(can be repeated|repeat it|repeatable)\b")
"""What is said of options alone, which come several times where Python takes a list."""
_SECTION = re.compile(r"^(Returns|Yields|Raises|Examples)\n-{3,}$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a request, but for its name and its default."""

    type: OptionType
    sentence: str
    """As in the help of a command: small, without a stop at its end, with other options as ``--name``."""
    metavar: str = ""
    """What help calls its value, if not as its type says."""
    flag: str | None = ""
    """Those of the command line, such as ``-o --output``; ``--max-batch-bytes`` of ``max_batch_bytes`` by default; None
    for what Python alone has."""
    is_repeated: bool = False
    """Whether the command line takes it several times."""


def given(
    what: Option | OptionType,
    sentence: str = "",
    metavar: str = "",
    *,
    default: Any = MISSING,
    kw_only: bool = True,
    flag: str | None = "",
    is_repeated: bool = False,
) -> Any:
    """Return the field of a request: an option that several have, or one of its own. Without ``default`` it has to be
    given."""
    option = what if isinstance(what, Option) else Option(what, sentence, metavar, flag=flag, is_repeated=is_repeated)
    return field(default=default, kw_only=kw_only, metadata={"option": option})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(given,))
def request(class_: Class) -> Class:
    """Return a class whose fields are options. Making one raises :class:`UsageError` for a value of another type."""
    class_.__post_init__ = _check
    return dataclass(frozen=True, kw_only=True, repr=False, eq=False)(class_)


def options_of(request: type[Any]) -> Iterator[tuple[str, Option, Any]]:
    """Yield each option of a request: its name, itself, and its default, ``MISSING`` where it has none."""
    return ((each.name, each.metadata["option"], each.default) for each in fields(request))


def _check(own: Any) -> None:
    for each in fields(own):
        value = getattr(own, each.name)
        if value is not each.default:
            object.__setattr__(own, each.name, _checked(each, value))


def check_options(request: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values that are passed on by name, as ``request`` would have them; what it does not have stays unchanged.
    Raises :class:`UsageError` for a value of another type."""
    known = {each.name: each for each in fields(request)}
    return {name: _checked(known[name], value) if name in known else value for name, value in values.items()}


def _checked(own: Field[Any], value: Any) -> Any:
    """Return a value; what can be walked once only, as a list."""
    type_ = own.metadata["option"].type
    if value is None and (own.default is None or type_.is_optional):
        return None
    if type_.is_list and isinstance(value, Iterator):
        value = list(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    if type_.accepts(value):
        if type_.least is not None and value < type_.least:
            raise UsageError(f"{own.name}: {value} is {type_.below}")
        return value
    if type_.is_list and isinstance(value, str):
        raise UsageError(f"{own.name}: {value!r} is not {type_.expected}; give [{value!r}]")
    shown = f"a value of type {type(value).__name__}" if type_.is_secret else repr(value)
    raise UsageError(f"{own.name}: {shown} is not {type_.expected}")


def takes(
    make: Callable[P, RequestT],
) -> Callable[[Callable[[Own, RequestT], ResultT]], Callable[Concatenate[Own, P], ResultT]]:
    """Return a method whose keywords are the options of a request; its docstring gets a section about them."""

    def decorate(method: Callable[[Own, RequestT], ResultT]) -> Callable[Concatenate[Own, P], ResultT]:
        @wraps(method)
        def call(own: Own, /, *positional: P.args, **named: P.kwargs) -> ResultT:
            return method(own, _made(make, method.__name__, positional, named))

        _describe(call, make, method)
        return call

    return decorate


def asks(make: Callable[P, RequestT]) -> Callable[[Callable[[RequestT], ResultT]], Callable[P, ResultT]]:
    """Return a function whose parameters are the options of a request; its docstring gets a section about them."""

    def decorate(function: Callable[[RequestT], ResultT]) -> Callable[P, ResultT]:
        @wraps(function)
        def call(*positional: P.args, **named: P.kwargs) -> ResultT:
            return function(_made(make, function.__name__, positional, named))

        _describe(call, make, function)
        return call

    return decorate


def _made(make: Callable[..., RequestT], function: str, positional: tuple[Any, ...], named: dict[str, Any]) -> RequestT:
    """Return the request of what was given. Raises :class:`TypeError` about the function that was called."""
    try:
        return make(*positional, **named)
    except TypeError as error:
        from difflib import get_close_matches  # which no right keyword needs

        known = [name for name, _, _ in options_of(make)]  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        near = [get_close_matches(each, known, 1) for each in named if each not in known]
        hint = f"; did you mean {near[0][0]}?" if near and near[0] else ""
        raise TypeError(f"{function}(){str(error).partition('()')[2]}{hint}") from None


def _describe(call: Any, make: Any, function: Any) -> None:
    """Gives a function the signature and the docstring that it would have if its options were written out."""
    of_function = inspect.signature(function)
    own = [each for each in of_function.parameters.values() if each.name != "request"]
    call.__signature__ = of_function.replace(parameters=[*own, *inspect.signature(make).parameters.values()])
    if text := inspect.getdoc(function):
        call.__doc__ = _with_parameters(text, make)


def _with_parameters(text: str, request: type[Any]) -> str:
    lines = ["Parameters", "----------"]
    names = {flag_of(name, option): name for name, option, _ in options_of(request)}
    for name, option, default in options_of(request):
        lines += [f"{name} : {_shown(option.type, default)}", *_wrapped(python_sentence(option.sentence, names))]
    found = _SECTION.search(text)
    at = len(text) if found is None else found.start()
    return "\n".join([text[:at].rstrip(), "", *lines, "", text[at:]]).rstrip() + "\n"


def flag_of(name: str, option: Option) -> str:
    """Return an option's long flag of the command line, such as ``--max-batch-bytes``."""
    return next(each for each in flags_of(name, option) if each.startswith("--"))


def flags_of(name: str, option: Option) -> list[str]:
    """Return all flags of an option, such as ``-o`` and ``--output``."""
    return (option.flag or f"--{name.strip('_').replace('_', '-')}").split()


def python_sentence(sentence: str, names: Mapping[str, str]) -> str:
    """Return a sentence of an option as a docstring has it: with other options as parameters. ``names``: theirs, by
    their flags."""
    text = _FLAG.sub(lambda each: f"``{names.get(each[0], each[0][2:].replace('-', '_'))}``", sentence)
    text = _PATTERN.sub(r"``\1``", text)
    text = _OF_COMMANDS.sub("", text)
    is_name = re.search(r"[_.]|^fsspec", text.partition(" ")[0]) is not None
    return f"{text if is_name else text[:1].upper() + text[1:]}."


def _shown(option_type: OptionType, default: Any) -> str:
    if default is MISSING or (option_type.choices and default is not None):
        return option_type.shown
    is_nothing = default is None or default == () or callable(default)
    return f"{option_type.shown}, optional" if is_nothing else f"{option_type.shown}, default {_literal(default)}"


def _literal(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else repr(value)


def _wrapped(text: str) -> Iterator[str]:
    from textwrap import wrap

    return (f"    {each}" for each in wrap(text, _WIDTH, break_long_words=False, break_on_hyphens=False))
