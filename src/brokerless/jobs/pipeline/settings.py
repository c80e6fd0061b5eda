"""The settings of a pipeline, and the YAML file that they are read from."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any, NoReturn, cast

from brokerless.errors import UsageError, missing_libraries
from brokerless.format.codecs.decompression_buffer import DEFAULT_MAX_BATCH_BYTES
from brokerless.jobs.pipeline.forms import FORMS
from brokerless.kafka_names import COMPRESSION_TYPES, ISOLATION_LEVELS, Isolation
from brokerless.log.storage.location import Location
from brokerless.log.storage.paths import StorageOptions
from brokerless.requests.writing import ExportForm
from brokerless.table_formats.catalog import Catalog
from brokerless.table_formats.parquet_files import FILE_BYTES
from brokerless.typed.topic_type import Decoding

_LIMIT = 1 << 20
"""Bytes of a file of settings."""
_SIZE = re.compile(r"([0-9]{1,15}) ?([KMGT]?)(I?)B?", re.IGNORECASE)
_AGE = re.compile(r"([0-9]{1,6}) ?([mhd])")
_SECONDS = {"m": 60, "h": 3600, "d": 86400}


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of a pipeline: what it reads, where it writes, and how. The names are those of the command's
    options."""

    paths: tuple[str, ...]
    """Log directories, or directories with log directories in them, such as nightly backups."""
    to: str
    """The root of the tables."""
    topic: tuple[str, ...] = ()
    """Patterns (``*``, ``?``, ``[...]``) of topics to read. Kafka's own are left out unless a pattern that begins with
    ``__`` selects them."""
    exclude: tuple[str, ...] = ()
    """Patterns of topics to leave out."""
    form: ExportForm = FORMS[0]
    """The tables' format."""
    catalog: Catalog = field(default_factory=Catalog)
    """Iceberg's catalog."""
    table_options: StorageOptions | None = field(default=None, repr=False)
    """deltalake's storage options."""
    isolation: Isolation = "read_uncommitted"
    by_date: bool = False
    """Whether Parquet files are split by date, as those of tables always are."""
    compression: str = "zstd"
    file_bytes: int = FILE_BYTES
    decoding: Decoding | None = None
    max_batch_bytes: int = DEFAULT_MAX_BATCH_BYTES
    verify: bool = True
    """Whether what is new is checked before it is exported."""
    report: bool = True
    """Whether the page is written."""
    keep_snapshots_s: int = 7 * 86400
    """The seconds for which an older state of a table can be read."""
    spark: str | None = None
    """Where tasks run, as ``--spark`` takes it."""
    storage_options: StorageOptions | None = field(default=None, repr=False)
    """The options of fsspec for what is read."""
    to_storage_options: StorageOptions | None = field(default=None, repr=False)
    """The options of fsspec for the tables."""
    follow_s: float | None = None
    """The command goes on until it is stopped, with a run each so many seconds; None for one run."""

    @property
    def root(self) -> Location:
        """Where the tables are, and the pipeline's own files."""
        return Location(self.to, self.to_storage_options)


def load_settings(path: str) -> dict[str, Any]:
    """Return the settings that a YAML file has, by the names of the fields of :class:`Settings`; those that it does not
    have are missing. ``decode``, ``schemas``, ``key-format`` and ``value-format`` become ``decoding``.

    Raises :class:`UsageError` with the line for what is no setting, and where PyYAML is not installed;
    :class:`UnreadableError` for a file that cannot be read.
    """
    try:
        import yaml
    except ImportError as error:
        raise missing_libraries("a file of settings needs PyYAML", "pipeline") from error
    data = Location(path).read(_LIMIT)
    try:
        root: Any = yaml.compose(data, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, UnicodeError, RecursionError, ValueError) as error:
        mark: Any = getattr(error, "problem_mark", None)
        place = path if mark is None else f"{path}, line {mark.line + 1}"
        problem = getattr(error, "problem", None) or "this is not YAML"
        raise UsageError(f"{place}: {problem}; write one NAME: VALUE on each line") from error
    if root is None:
        raise UsageError(f"{path}: there are no settings in this file; write at least path: and to:")
    return _SettingsFile(path).settings(root)


def make_settings(found: Mapping[str, Any]) -> Settings:
    """Settings by their names. Raises :class:`UsageError` where it is not known what to read, or where to write."""
    if not found.get("paths"):
        raise UsageError("a pipeline has to know what to read: give PATH, or path: in the file of settings")
    if not found.get("to"):
        raise UsageError("a pipeline has to know where to write: give --to, or to: in the file of settings")
    known = {each.name for each in fields(Settings)}
    unknown = sorted(found.keys() - known)
    if unknown:
        names = {*known - {"form", "decoding"}, "as_", "decode"}  # as callers give them
        near = get_close_matches(unknown[0], names, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(sorted(names))}"
        raise UsageError(f"there is no setting {unknown[0]!r}; {hint}")
    settings = Settings(**found)
    if settings.form not in FORMS:
        raise UsageError(f"there is no format {settings.form!r} of tables; there are {', '.join(FORMS)}")
    to = Location(settings.to)  # which takes a key out of a URL
    both = [{**(to.options or {}), **(each or {})} for each in (settings.to_storage_options, settings.table_options)]
    return replace(settings, to=to.path, to_storage_options=both[0] or None, table_options=both[1] or None)


class _SettingsFile:
    """Reads the nodes of a YAML document, each error with the file's name and line."""

    def __init__(self, path: str) -> None:
        self._path = path

    def settings(self, root: Any) -> dict[str, Any]:
        found: dict[str, Any] = {}
        decoding: dict[str, Any] = {}
        catalog: dict[str, Any] = {}
        for name, key, node in self._members(root):
            if name not in _SETTINGS:
                if name == "settings":
                    self.fail(key, "settings names such a file, and cannot be in one")
                near = get_close_matches(name, _SETTINGS, 1)
                hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(_SETTINGS)}"
                self.fail(key, f"there is no setting {name!r}; {hint}")
            target, read = _SETTINGS[name]
            value = read(self, node, name)
            kind, _, inner = target.rpartition(".")
            if kind:
                (decoding if kind == "decoding" else catalog)[inner] = value
            elif target in found and target in ("verify", "report"):
                self.fail(key, f"{target} and no-{target} are there; leave one of them out")
            else:
                found[target] = value
        try:
            if catalog:
                found["catalog"] = Catalog(**catalog)
            if decoding:
                is_on = decoding.pop("decode", bool(decoding))
                found["decoding"] = Decoding(**decoding) if is_on else None
        except UsageError as error:
            raise UsageError(f"{self._path}: {error}") from error
        return found

    def text(self, node: Any, name: str) -> str:
        kind = self._kind(node)
        if kind not in ("str", "int", "float", "timestamp") or not node.value:
            self.fail(node, f"{name} is not a text" + ("; write it in quotes" if kind in ("bool", "null") else ""))
        return str(node.value)

    def texts(self, node: Any, name: str) -> tuple[str, ...]:
        """One text, or a list of them."""
        if self._kind(node) == "seq":
            return tuple(self.text(each, name) for each in node.value)
        return (self.text(node, name),)

    def flag(self, node: Any, name: str) -> bool:
        if self._kind(node) != "bool":
            self.fail(node, f"{name} is neither true nor false")
        return str(node.value).lower() in ("true", "yes", "on")

    def no_flag(self, node: Any, name: str) -> bool:
        return not self.flag(node, name)

    def seconds(self, node: Any, name: str) -> float:
        """Return the value of an option that takes seconds, above 0."""
        try:
            value = float(node.value) if self._kind(node) in ("int", "float") else 0.0
        except ValueError:
            value = 0.0
        if not 0 < value < float("inf"):
            self.fail(node, f"{name} is not a number of seconds above 0")
        return value

    def pairs(self, node: Any, name: str) -> dict[str, str]:
        """One NAME=VALUE, or a list of them, as an option takes them that can be repeated; or NAME: VALUE."""
        if self._kind(node) == "map":
            return self.text_mapping(node, name)
        found = [each.partition("=") for each in self.texts(node, name)]
        if not all(separator and key for key, separator, _ in found):
            self.fail(node, f"{name} is not NAME=VALUE")
        return {key: value for key, _, value in found}

    def size(self, node: Any, name: str) -> int:
        match = _SIZE.fullmatch(str(node.value)) if self._kind(node) in ("int", "str") else None
        if match is None or not int(match[1]):
            self.fail(node, f"{name} is not a number of bytes; use one such as 1000000, 500MB or 1GiB")
        is_decimal = bool(match[2]) and not match[3] and str(node.value).upper().endswith("B")
        return int(match[1]) * (1000 if is_decimal else 1024) ** " KMGT".index(match[2].upper() or " ")

    def age(self, node: Any, name: str) -> int:
        match = _AGE.fullmatch(str(node.value)) if self._kind(node) == "str" else None
        if match is None:
            self.fail(node, f"{name} is not a time; use one such as 30m, 12h or 7d")
        return int(match[1]) * _SECONDS[match[2]]

    def choice(self, node: Any, name: str, values: tuple[str, ...]) -> str:
        value = self.text(node, name)
        if value not in values:
            self.fail(node, f"{name}: {value!r} is not one of {', '.join(values)}")
        return value

    def mapping(self, node: Any, name: str) -> dict[str, Any]:
        """Options of a storage: texts, numbers, true and false."""
        found: dict[str, Any] = {}
        for key, _, value in self._members(node, name):
            kind = self._kind(value)
            if kind == "map":
                found[key] = self.mapping(value, f"{name}.{key}")
            elif kind == "bool":
                found[key] = self.flag(value, key)
            elif kind == "int":
                found[key] = int(self.text(value, key), 0)
            else:
                found[key] = self.text(value, f"{name}.{key}")
        return found

    def text_mapping(self, node: Any, name: str) -> dict[str, str]:
        """Options of a library that takes all of them as texts; true and false in lower case."""
        return {key: str(self.flag(value, key)).lower() if self._kind(value) == "bool" else self.text(value, key)
                for key, _, value in self._members(node, name)}  # fmt: skip

    def fail(self, node: Any, text: str) -> NoReturn:
        raise UsageError(f"{self._path}, line {node.start_mark.line + 1}: {text}")

    def _members(self, node: Any, name: str = "the file") -> list[tuple[str, Any, Any]]:
        if self._kind(node) != "map":
            self.fail(node, f"{name} is not NAME: VALUE on each line")
        found: dict[str, tuple[str, Any, Any]] = {}
        for key, value in node.value:
            own = self.text(key, "a name")
            if own in found:
                self.fail(key, f"{own} is there twice; leave one of them out")
            found[own] = own, key, value
        return list(found.values())

    def _kind(self, node: Any) -> str:
        return cast(str, node.tag).rpartition(":")[2]


ReadValue = Callable[[_SettingsFile, Any, str], Any]


def _choice(*values: str) -> ReadValue:
    return lambda file, node, name: file.choice(node, name, values)


_SETTINGS: dict[str, tuple[str, ReadValue]] = {
    "path": ("paths", _SettingsFile.texts),
    "to": ("to", _SettingsFile.text),
    "topic": ("topic", _SettingsFile.texts),
    "exclude": ("exclude", _SettingsFile.texts),
    "as": ("form", _choice(*FORMS)),
    "catalog": ("catalog.name", _SettingsFile.text),
    "catalog-properties": ("catalog.properties", _SettingsFile.text_mapping),
    "catalog-property": ("catalog.properties", _SettingsFile.pairs),
    "namespace": ("catalog.namespace", _SettingsFile.text),
    "table-options": ("table_options", _SettingsFile.text_mapping),
    "isolation": ("isolation", _choice(*ISOLATION_LEVELS)),
    "by-date": ("by_date", _SettingsFile.flag),
    "compression": ("compression", _choice(*COMPRESSION_TYPES)),
    "file-bytes": ("file_bytes", _SettingsFile.size),
    "decode": ("decoding.decode", _SettingsFile.flag),
    "schemas": ("decoding.schemas", _SettingsFile.text),
    "key-format": ("decoding.key_format", _SettingsFile.text),
    "value-format": ("decoding.value_format", _SettingsFile.text),
    "max-batch-bytes": ("max_batch_bytes", _SettingsFile.size),
    "verify": ("verify", _SettingsFile.flag),
    "no-verify": ("verify", _SettingsFile.no_flag),
    "report": ("report", _SettingsFile.flag),
    "no-report": ("report", _SettingsFile.no_flag),
    "follow": ("follow_s", _SettingsFile.seconds),
    "keep-snapshots": ("keep_snapshots_s", _SettingsFile.age),
    "spark": ("spark", _SettingsFile.text),
    "storage-options": ("storage_options", _SettingsFile.mapping),
    "to-storage-options": ("to_storage_options", _SettingsFile.mapping),
}
"""Names in the file, which are those of the command's options: the field, and how its value is read."""
