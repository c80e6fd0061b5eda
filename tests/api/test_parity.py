"""Python has what the command line has: every command, every option, with the same default.

What differs is in the tables here, each with its reason.
"""

from __future__ import annotations

import inspect
from argparse import Action
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import brokerless
from brokerless import Log, internals
from brokerless.cli.commands import COMMANDS
from brokerless.cli.parser import Parser, load_command

METHODS: dict[str, Callable[..., Any]] = {
    "ls": Log.segments,
    "cat": Log.records,
    "sql": Log.sql,
    "batches": Log.batches,
    "explain": brokerless.explain,
    "schema": Log.schema,
    "internals": internals.state,
    "verify": Log.verify,
    "audit": Log.audit,
    "restart": Log.restart,
    "diff": brokerless.diff,
    "size": Log.size,
    "report": Log.report,
    "cluster": brokerless.cluster,
    "salvage": Log.salvage,
    "carve": brokerless.carve,
    "merge": brokerless.merge,
    "trim": Log.trim,
    "rebuild": brokerless.rebuild,
    "restore": brokerless.restore,
    "serve": brokerless.serve,
    "export": Log.export,
    "pipeline": brokerless.pipeline,
    "backup": brokerless.backup,
    "snapshots": brokerless.Backup.snapshots,
    "check": brokerless.Backup.check,
    "keys": brokerless.Backup.keys,
    "drill": brokerless.Backup.drill,
    "forget": brokerless.Backup.forget,
    "prune": brokerless.Backup.prune,
    "load": brokerless.load,
    "convert": Log.convert,
    "compact": Log.compact,
    "erase": Log.erase,
    "prove": brokerless.prove,
}
NO_METHOD = {"completion": "of the command line itself"}

SELECTION = "log.partition and log.topic select; brokerless.open takes include"
SHOWN = "how a terminal or a file shows the result, which is a value in Python"
PROCESSES = "a program starts no processes of its own: spark= does"
TYPED = "parts of decode=Decoding(...)"
CATALOG = "parts of catalog=Catalog(...)"
FILES = "Python takes rows; a command reads files"
LOADING = "parts of routing=, settings= or config="
SETTINGS = "a name of its **options, which are the settings of a pipeline"

ANYWHERE = {
    **dict.fromkeys(("topic", "partition", "exclude_internal", "include", "all_below"), SELECTION),
    **dict.fromkeys(("json", "wide", "no_pager", "quiet", "min_severity", "all", "redact"), SHOWN),
    "paths": "the log is opened, or it is the first parameter",
    "timezone": "a datetime has its zone, and tables are in UTC",
    "as_it_lies": "brokerless.open takes as_it_lies",
    **dict.fromkeys(("key_pair", "layout", "remote"), "brokerless.open takes key_pairs, layout and remote"),
    "jobs": PROCESSES,
    **dict.fromkeys(("key_format", "value_format", "schemas"), TYPED),
    **dict.fromkeys(("namespace", "catalog_property"), CATALOG),
}
"""Options of several commands that no method has."""

ONLY_OPTIONS: dict[str, dict[str, str]] = {
    "ls": {"by": SHOWN},
    "cat": {
        **dict.fromkeys(("bytes", "csv", "output", "template"), SHOWN),
        **dict.fromkeys(("grep", "header", "key", "key_regex", "where"), "parts of filter=RecordFilter(...)"),
        **dict.fromkeys(("offset", "start", "end"), "start_offset, end_offset, start_timestamp, end_timestamp"),
        "tail": "start_offset=partition.end_offset - n",
    },
    "sql": {**dict.fromkeys(("csv", "output", "output_format", "limit"), SHOWN), "file": "a program reads it itself"},
    "explain": {
        **dict.fromkeys(("codec", "format", "key", "timestamp", "value"), "brokerless.writing.BatchBuilder builds one"),
        "output": SHOWN,
    },
    "internals": {
        "history": "internals.history",
        "table": "tables=",
    },
    "size": {"price_per_gb": SHOWN},
    **{name: {"metrics": SHOWN} for name in ("verify", "check")},
    "diff": {
        **dict.fromkeys(("more_left", "more_right"), "left= and right= take several"),
        **dict.fromkeys(("replicas", "budget", "state"), "brokerless.diff_replicas"),
        "metrics": SHOWN,
    },
    "trim": {"dry_run": "the default; apply= is the opposite"},
    "rebuild": {
        "dry_run": "the default; apply= is the opposite",
        "undo": "brokerless.undo_rebuild",
        "force": "a parameter of brokerless.undo_rebuild",
    },
    "restore": {"dry_run": "the default; apply= is the opposite"},
    "pipeline": {
        **dict.fromkeys(("by_date", "catalog", "compression", "decode", "exclude", "file_bytes", "follow"), SETTINGS),
        **dict.fromkeys(("form", "isolation", "max_batch_bytes", "no_report", "no_verify"), SETTINGS),
    },
    "load": {
        **dict.fromkeys(("bytes", "manifest", "max_line_bytes", "spark"), FILES),
        **dict.fromkeys(
            ("batch_size", "codec", "format", "index_interval_bytes", "level", "partitions", "segment_bytes"), LOADING
        ),
        **dict.fromkeys(("start_offset", "timestamp", "timestamp_type", "topic_id"), LOADING),
        "to": "directory=",
    },
    "convert": dict.fromkeys(("tiered", "compress", "public_keys"), "brokerless.Log.upload"),
    "erase": {"key": "keys=", "keys_format": FILES, "apply": "brokerless.Backup.erase, for a backup"},
    "forget": {"dry_run": "the default; apply= is the opposite"},
    "prune": {"dry_run": "the default; apply= is the opposite"},
    "snapshots": {
        **dict.fromkeys(("offsets", "lost", "metrics"), SHOWN),
        **{"seal": "brokerless.Backup.seal", "join": "brokerless.Backup.join"},
    },
    "drill": {"html": SHOWN},
    "prove": {"keys_format": FILES, "html": SHOWN, "manifest": "path="},
}
"""Options that a method has not, or by another name, and why."""

OTHER_DEFAULTS = {
    "spark": "in this process; a command takes Spark for what takes hours",
    "decode": "None and False are the same",
    "to": "needed, but for compact",
    "query": "a command reads statements from stdin",
    "blank": "a choice of what is blanked, of which there is one",
    "blank_fields": "none, as an empty sequence",
    "add": "none, as an empty mapping",
    "path": "the command can build a batch instead",
}
OF_ONE_DEFAULT = {("serve", "listen"): "a program gets a free port, and is told which"}


def actions(name: str) -> Iterator[Action]:
    parser = Parser(prog=f"brokerless {name}")
    parser.add_command(load_command(name))
    return (each for each in parser.actions if each.dest != "help")


def parameter_of(name: str, action: Action) -> inspect.Parameter | None:
    return inspect.signature(METHODS[name]).parameters.get(action.dest)


def test_every_command_has_its_method() -> None:
    assert METHODS.keys() | NO_METHOD.keys() == {*COMMANDS}


@pytest.mark.parametrize("name", METHODS)
def test_every_option_is_a_parameter(name: str) -> None:
    missing = {each.dest for each in actions(name) if parameter_of(name, each) is None}
    assert missing - ANYWHERE.keys() == ONLY_OPTIONS.get(name, {}).keys()


@pytest.mark.parametrize("name", METHODS)
def test_a_default_is_the_same(name: str) -> None:
    for action in actions(name):
        parameter = parameter_of(name, action)
        if parameter is None or action.dest in OTHER_DEFAULTS or (name, action.dest) in OF_ONE_DEFAULT:
            continue
        if parameter.default is inspect.Parameter.empty:
            assert action.required or not action.option_strings, f"{name} {action.dest} is needed in Python"
            continue
        if action.default == []:  # argparse adds to it
            assert not parameter.default, f"{name} {action.dest}"
        else:
            assert parameter.default == action.default, f"{name} {action.dest}"


def test_tables_have_no_row_that_is_needed_no_more() -> None:
    options = {name: {each.dest for each in actions(name)} for name in METHODS}
    for name, rows in ONLY_OPTIONS.items():
        assert rows.keys() <= options[name]
    everything = set[str]().union(*options.values())
    assert (ANYWHERE.keys() | OTHER_DEFAULTS.keys()) <= everything
