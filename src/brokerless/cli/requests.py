"""Makes the options of a command from its request, and the request of what was typed."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Collection
from dataclasses import MISSING
from typing import Any, TypeVar

from brokerless import clock
from brokerless.cli import values
from brokerless.cli.options import EachOnce, add_apply, add_spark
from brokerless.clock import parse_time
from brokerless.requests import option_types as types
from brokerless.requests import shared
from brokerless.requests.options import Option, flags_of, options_of

RequestT = TypeVar("RequestT")


def add_request(
    parser: ArgumentParser,
    request: type[Any],
    *,
    without: Collection[str] = (),
    one_of: Collection[str] = (),
    **defaults: Any,
) -> None:
    """Add the options of a request, by the names of its fields. ``without``: those that the command adds itself.
    ``one_of``: of these, one is given. ``defaults``: of the command line alone."""
    ways = parser.add_mutually_exclusive_group(required=True) if one_of else None
    for name, option, default in options_of(request):
        if option.flag is None or name in without:
            continue
        default = defaults.get(name, default)
        if option is shared.SPARK:
            add_spark(parser)
        elif name == "apply":
            add_apply(parser, option.sentence)
        else:
            group = ways if ways is not None and name in one_of else parser
            group.add_argument(*flags_of(name, option), dest=name, **_settings(option, default, is_way=group is ways))


def _settings(option: Option, default: Any, *, is_way: bool) -> dict[str, Any]:
    type_, text = option.type, option.sentence.replace("%", "%%")
    if type_ is types.FLAG:
        return {"action": "store_false" if default is True else "store_true", "help": text}
    typed: Callable[[str], Any] | None = getattr(values, type_.typed) if type_.typed else None
    found: dict[str, Any] = {"type": typed} if typed is not None else {}
    found |= {"choices": type_.choices} if type_.choices else {"metavar": option.metavar or type_.metavar}
    if type_.is_mapping:
        return found | {"action": EachOnce, "default": [], "help": text}
    if option.is_repeated:
        return found | {"action": "append", "default": [], "help": text}
    if default is MISSING and not is_way:
        return found | {"required": True, "help": text}
    shown = type_.choices[type_.values.index(default)] if default in type_.values else default
    return found | {"default": shown, "help": text}


def request_of(request: Callable[..., RequestT], options: Namespace, **more: Any) -> RequestT:
    """Return the request of a command line; times are of its zone. ``more``: what is no option, or another there."""
    found: dict[str, Any] = {}
    for name, option, default in options_of(request):  # pyright: ignore[reportArgumentType]
        if option.flag is None or name in more:
            continue
        value: Any = getattr(options, name)
        type_ = option.type
        if type_.is_mapping:
            value = dict(value)
        if option.is_repeated and not value:
            continue  # as it is by default
        if type_ is types.TIME and value is not None:
            value = parse_time(value, clock.now(), options.timezone)
        of_text = dict(zip(type_.choices, type_.values, strict=False))
        if of_text and value is not None:
            value = [of_text[each] for each in value] if option.is_repeated else of_text[value]
        if value is not default:
            found[name] = value
    return request(**found, **more)
