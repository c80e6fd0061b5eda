"""What a value of an option is: what is taken for one, and what people read of it."""

from __future__ import annotations

import operator
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeGuard, Union

from brokerless.clock import TIME as TIME_TEXT
from brokerless.log.directory import LogDirectory, PartitionPath

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

Spark = Union["SparkContext", "SparkSession", str, None]
"""Where tasks run: a session, or a master for which one is started."""
Paths = Iterable[str | os.PathLike[str]] | str | os.PathLike[str]
"""One path, or several."""
PathsOrLogs = Union[str, os.PathLike[str], "OpenedLog", "Iterable[str | os.PathLike[str] | OpenedLog]"]
"""One path, or what :func:`brokerless.open` returned, or several of these."""


class OpenedLog(Protocol):
    """A :class:`brokerless.Log`, of which a room below it knows this."""

    @property
    def directory(self) -> LogDirectory: ...

    @property
    def paths(self) -> tuple[PartitionPath, ...]: ...


@dataclass(frozen=True, slots=True)
class OptionType:
    """What values of an option are."""

    accepts: Callable[[Any], bool]
    """Whether a value is one; of what is checked where it is used, any."""
    expected: str
    """What a message says that is taken."""
    shown: str
    """What a docstring says that it is."""
    typed: str = ""
    """The function of ``cli.values`` that reads it from a command line; the text itself without one."""
    metavar: str = ""
    """What help calls it."""
    is_optional: bool = False
    """Whether None is one, too, though the default is another."""
    is_list: bool = False
    """Whether what can be walked once only is kept as a list."""
    is_secret: bool = False
    """Whether no message has the value."""
    is_mapping: bool = False
    """Whether the command line takes pairs."""
    least: int | None = None
    """The least number."""
    below: str = ""
    """What a message says of a number below that."""
    choices: tuple[str, ...] = ()
    """All that a command line takes."""
    values: tuple[Any, ...] = ()
    """What the choices are in Python, if that is something else."""


def one_of(*choices: str) -> OptionType:
    """Return the type of a text that is one of a few."""
    quoted = ", ".join(f'"{each}"' for each in choices)
    expected = f"{'one of ' * (len(choices) > 1)}{', '.join(choices)}"
    return OptionType(lambda value: _is_text(value) and value in choices, expected, f"{{{quoted}}}", choices=choices)


def name_of(*choices: str) -> OptionType:
    """Return the type of a name that its job refuses if there is none, as it knows others, too."""
    return replace(one_of(*choices), accepts=_is_text, expected="a text")


def several_of(*choices: str) -> OptionType:
    """Return the type of a list of such texts, which the job checks."""
    return replace(NAME_LIST, choices=choices)


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # NumPy's as well


def _is_amount_or_all(value: Any) -> bool:
    return value == "all" or (_is_whole_number(value) and value > 0)


def _is_whole_number(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not _is_bool(value)


def _is_number(value: Any) -> bool:
    return (_is_whole_number(value) or hasattr(value, "__float__")) and not _is_bool(value)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _is_path_or_location(value: Any) -> bool:
    return _is_path(value) or _is_instance(value, "brokerless.log.storage.location", "Location")


def _is_time(value: Any) -> bool:
    return isinstance(value, (datetime, str)) or _is_whole_number(value)


def _is_batches(value: Any) -> bool:
    is_other = isinstance(value, (str, bytes, Mapping))
    return (isinstance(value, Iterable) and not is_other) or hasattr(value, "__arrow_c_stream__")


def _instance_of(name: str) -> OptionType:
    """Return the type of a value of ours, known by its class's name: its room may come later."""
    return OptionType(lambda value: any(each.__name__ == name for each in type(value).__mro__), f"a {name}", name)


def _is_collection(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, (str, bytes))


def _all(accepts: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """Return what takes a list of values that ``accepts`` takes."""
    return lambda value: _is_collection(value) and all(map(accepts, value))


def _is_instance(value: Any, module: str, name: str) -> bool:
    """Return whether a value is of a class whose module is only loaded where such a value is made."""
    loaded = sys.modules.get(module)
    return loaded is not None and isinstance(value, getattr(loaded, name))


def _is_decoding(value: Any) -> bool:
    return _is_instance(value, "brokerless.typed.topic_type", "Decoding")


def is_log(value: Any) -> TypeGuard[OpenedLog]:
    """Return whether :func:`brokerless.open` returned it."""
    return _is_instance(value, "brokerless.api.log", "Log")


ANY = OptionType(lambda _: True, "", "object")
"""Checked where it is used."""
ANY_SIZE = OptionType(
    lambda value: _is_text(value) or _is_number(value),
    "a number of bytes above 0; use one such as 1000000, '500MB' or '1GiB'",
    "int or str",
    typed="amount",
    metavar="SIZE",
)
"""Bytes, or a text such as ``"20GB"``."""
KEYS = OptionType(lambda value: isinstance(value, Iterable), "a list of keys", "iterable of bytes or str")
HEADER = replace(ANY, shown="(str, bytes or str)")
FIELDS = replace(ANY, shown="sequence of str", metavar="FIELDS")
ANY_BATCHES = OptionType(
    _is_batches, "a record batch, a table, or what yields batches", "iterable of pyarrow.RecordBatch"
)
ROUTING, BATCH_SETTINGS, LOG_CONFIG, FILTER, SELECTION = map(
    _instance_of, ("Routing", "BatchSettings", "LogConfig", "RecordFilter", "Selection")
)
SIDE = replace(ANY, shown="path, Log, or a list of these")
CLIENT_CONFIG = replace(ANY, shown="dict or path", metavar="FILE")
LOG_STARTS = replace(
    ANY, shown="dict of (str, int) to int", typed="log_start", metavar="TOPIC-P=OFFSET", is_mapping=True
)
CATALOG = replace(ANY, shown="Catalog or str")
FLAG = OptionType(_is_bool, "True or False", "bool")
NUMBER = OptionType(_is_whole_number, "a whole number", "int", typed="integer", metavar="N")
"""Which may be negative."""
COUNT = replace(NUMBER, typed="count", least=0, below="less than 0")
"""From 0 on."""
LIMIT = replace(COUNT, is_optional=True)
"""None for no limit."""
HOURS = replace(COUNT, least=None, metavar="HOURS")
"""As its job takes them."""
SIZE = replace(NUMBER, typed="size", metavar="SIZE", least=1, below="no number of bytes above 0")
"""Bytes, within Kafka's limits."""
SIZE_OR_0 = replace(SIZE, typed="size_or_0", least=0, below="less than 0")
AMOUNT = replace(SIZE, typed="amount")
"""Bytes, however many."""
AMOUNT_OR_ALL = OptionType(
    _is_amount_or_all, "all, or a number of bytes above 0", "int or 'all'", typed="amount_or_all", metavar="SIZE"
)
FLOAT = OptionType(_is_number, "a number", "float")
SAMPLE = replace(FLOAT, typed="sample", metavar="SIZE")
"""Bytes, or a share below 1."""
PRICE = replace(FLOAT, typed="price", metavar="PRICE")
"""What 10^9 bytes cost in a month."""
TEXT = OptionType(_is_text, "a text", "str")
PATH = OptionType(_is_path, "a path", "path", metavar="FILE")
DIRECTORY = replace(PATH, metavar="DIRECTORY")
URL = OptionType(_is_path_or_location, "a path", "path or URL", metavar="DIRECTORY")
URL_OR_NONE = replace(URL, shown="path or URL, or None", is_optional=True)
ONE_PATH = replace(URL, expected="a path; each of several is opened by itself")
TIME = OptionType(
    _is_time,
    f"a time; give a datetime with a time zone, or a text such as {TIME_TEXT}",
    'int (ms), datetime or text such as ``"2026-11-01"`` or ``"-7d"``',
    metavar="TIME",
)
PATHS = OptionType(
    lambda value: _is_path(value) or _all(_is_path_or_location)(value),
    "a path, or a list of paths",
    "path, or several",
    is_list=True,
)
PATHS_OR_LOGS = OptionType(
    lambda value: _is_path(value) or is_log(value) or _is_collection(value),
    "a path, a Log, or a list of these",
    "path, Log, or a list of these",
    is_list=True,
)
PATH_LIST = OptionType(_all(_is_path), "a list of paths", "collection of paths", metavar="DIRECTORY", is_list=True)
NAMES = OptionType(
    lambda value: _is_text(value) or _all(_is_text)(value), "a list of texts", "str or collection of str", is_list=True
)
NAME_LIST = OptionType(_all(_is_text), "a list of texts", "collection of str", metavar="NAME", is_list=True)
CAUSES = replace(NAME_LIST, typed="causes", metavar="CAUSES")
PARTS = replace(NAME_LIST, typed="parts", metavar="PARTS")
NUMBERS = OptionType(
    _all(_is_whole_number), "a list of whole numbers", "collection of int", typed="integer", metavar="N"
)
SIZES = replace(NUMBERS, typed="size", metavar="SIZE")
RECORD_COUNTS = replace(NUMBERS, typed="record_count")
MESSAGE_FORMAT = replace(ANY, shown="{0, 1, 2}", choices=("v0", "v1", "v2"), values=(0, 1, 2))
"""The version of batches."""
MESSAGE_FORMATS = replace(
    NUMBERS, typed="", shown="collection of {0, 1, 2}", choices=("v0", "v1", "v2"), values=(0, 1, 2)
)
FUNCTION = OptionType(callable, "a function", "callable")
STORAGE = OptionType(lambda value: isinstance(value, Mapping), "a dict of fsspec's options", "dict", is_secret=True)
KEY_PAIRS = OptionType(
    lambda value: isinstance(value, Mapping),
    "a dict of files by the names of key pairs",
    "dict of str to path",
    typed="key_pair",
    metavar="ID=FILE",
    is_secret=True,
    is_mapping=True,
)
DECODING = OptionType(_is_decoding, "a brokerless.Decoding", "Decoding")
DECODE = OptionType(
    lambda value: _is_bool(value) or _is_text(value) or _is_decoding(value),
    'True, "auto", a format such as "json", or a brokerless.Decoding',
    'True, "auto", a format of values such as "json", or Decoding',
)
LOGS = OptionType(
    lambda value: is_log(value) or (_is_collection(value) and all(map(is_log, value))),
    "a log, or a list of logs",
    "Log or sequence of Log",
    is_list=True,
)
SPARK = OptionType(
    lambda value: value is None or _is_text(value) or hasattr(value, "sparkContext") or hasattr(value, "parallelize"),
    "a master such as 'local[4]', a SparkSession or a SparkContext",
    "str, SparkSession or SparkContext",
)
