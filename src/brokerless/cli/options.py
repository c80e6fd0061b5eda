"""Options that several commands share: one name, one meaning, one help text."""

from __future__ import annotations

from argparse import Action, ArgumentError, ArgumentParser, Namespace
from collections.abc import Callable
from datetime import UTC
from typing import TYPE_CHECKING, Any

from brokerless.cli.values import count, integer, key_pair, pair, positive, size, size_or_0, states, zone
from brokerless.errors import UsageError
from brokerless.kafka_names import COMPRESSION_TYPES, ISOLATION_LEVELS

if TYPE_CHECKING:
    from brokerless.table_formats.catalog import Catalog
    from brokerless.typed.topic_type import Decoding

FORMATS = ("v0", "v1", "v2")
_JOBS_HELP = "how many read in parallel (default: one for each processor where there is much to read; 1: none)"


def add_paths(parser: ArgumentParser) -> None:
    """Add what is read: logs, and which of their partitions."""
    add = parser.add_argument
    help_of_path = (
        "a log directory, a partition's directory, or a .log file; local, or a URL such as s3://bucket/orders-0"
    )
    add("paths", nargs="+", metavar="PATH", help=help_of_path)
    add_all_below(parser)
    add_selection(parser)
    add_tiered(parser)


def add_timezone(parser: ArgumentParser) -> None:
    """Add the time zone of times that are typed and shown."""
    help_of_zone = "the zone of times that name none, and of those shown: Europe/Berlin, +02:00, local (default: UTC)"
    parser.add_argument("--timezone", type=zone, default=UTC, metavar="ZONE", help=help_of_zone)


def add_tiered(parser: ArgumentParser) -> None:
    """Add what it takes to read the objects of tiered storage."""
    add_key_pair(parser)
    help_of_layout = "PATH has copies of segments that are named so, as in {topic}/{partition}/{offset}-*.log"
    parser.add_argument("--layout", metavar="PATTERN", help=help_of_layout)


def add_key_pair(parser: ArgumentParser) -> None:
    """Add the option for encrypted remote segments."""
    help_of_key = "a private key (PEM) of encrypted remote segments, by the name of its key pair; can be repeated"
    parser.add_argument("--key-pair", action=EachOnce, type=key_pair, default=[], metavar="ID=FILE", help=help_of_key)


def add_metrics(parser: ArgumentParser) -> None:
    """Add the file for Prometheus, which :func:`write_metrics` writes."""
    parser.add_argument("--metrics", metavar="FILE", help="also write metrics, in Prometheus's text format")


def refuse_metrics(options: Namespace) -> None:
    """Raise :class:`UnwritableError` where the file for Prometheus cannot be written, before there is anything to
    write."""
    if options.metrics is not None:
        from brokerless.log.storage.write_errors import refuse_directory

        refuse_directory(options.metrics, "a file in it, such as brokerless.prom")


def write_metrics(options: Namespace, text: Callable[[], str]) -> None:
    """Write the file for Prometheus, if one is requested, as a whole. Raises :class:`UnwritableError`."""
    if options.metrics is not None:
        from brokerless.log.storage.atomic import write_output
        from brokerless.log.storage.write_errors import unwritable

        with unwritable(options.metrics):
            write_output(options.metrics, text().encode())


class EachOnce(Action):
    """Collects pairs of a name and a value; a name that comes twice is refused."""

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        pairs = getattr(namespace, self.dest)
        if values[0] in dict(pairs):
            name = values[0] if isinstance(values[0], str) else "-".join(map(str, values[0]))
            raise ArgumentError(self, f"{name} is given twice")
        setattr(namespace, self.dest, [*pairs, values])


def add_remote(parser: ArgumentParser) -> None:
    """Add the option that says where the remote segments of a log are."""
    help_of_remote = (
        "the bucket with the remote segments of PATH's tiered topics: both are read as one log; can be repeated"
    )
    parser.add_argument("--remote", action="append", metavar="URL", help=help_of_remote)


def add_as_it_lies(parser: ArgumentParser) -> None:
    """Add the option to read files by their names, and not as a start completes them."""
    help_of_lying = (
        "read segments as they are now, and not as the next start of a broker ends an interrupted compaction"
    )
    parser.add_argument("--as-it-lies", action="store_true", help=help_of_lying)


def add_all_below(parser: ArgumentParser) -> None:
    """Add whether a path may be above the log directories."""
    help_of_below = "take all log directories that are in PATH, up to three levels below it, such as a broker's disks"
    parser.add_argument("--all-below", action="store_true", help=help_of_below)


def add_selection(parser: ArgumentParser) -> None:
    """Add which partitions of a path are read."""
    add = parser.add_argument
    add_topics(parser)
    add("--exclude-internal", action="store_true", help="skip Kafka's own topics, such as __consumer_offsets")
    help_of_include = (
        "also what a broker does not serve: deleted (records before the log start offset that are still in the files), "
        "partitions whose directories are future, delete or stray; separate several with commas"
    )
    add("--include", type=states, default=(), metavar="WHAT", help=help_of_include)


def add_topics(parser: ArgumentParser) -> None:
    """Add which partitions, by topic and number."""
    add = parser.add_argument
    help_of_topic = "only this topic, or topics, as 'click*' (with * ? [...]); can be repeated"
    add("-t", "--topic", action="append", default=[], metavar="NAME", help=help_of_topic)
    help_of_partition = "only partitions with this number; can be repeated"
    add("-p", "--partition", action="append", type=count, default=[], metavar="N", help=help_of_partition)


def add_to(parser: ArgumentParser, *, required: bool = True) -> None:
    """Add where a command writes."""
    help_of_to = "directory or URL to write to; created if it does not exist"
    parser.add_argument("--to", required=required, metavar="DIRECTORY", help=help_of_to)


def add_catalog(parser: ArgumentParser) -> None:
    """Iceberg's catalogue."""
    add = parser.add_argument
    help_of_catalog = "Iceberg's catalogue, by its name for pyiceberg (default: SQLite in DIRECTORY/catalog.db)"
    add("--catalog", metavar="NAME", help=help_of_catalog)
    help_of_property = "a property of Iceberg's catalogue, as uri=https://..., type=glue, s3.endpoint=...; repeatable"
    add("--catalog-property", action="append", type=pair, default=[], metavar="KEY=VALUE", help=help_of_property)
    add("--namespace", metavar="NAME", help="Iceberg's namespace of the tables (default: kafka)")


def catalog(options: Namespace, form: str | None = None) -> Catalog | None:
    """Return what :func:`add_catalog` says; None where nothing was given. ``form``: the tables' format, of which only
    Iceberg has a catalogue; None where it is not known yet."""
    from brokerless.table_formats.catalog import NAMESPACE, Catalog

    if options.catalog is None and not options.catalog_property and options.namespace is None:
        return None
    if form not in (None, "iceberg"):
        raise UsageError("--catalog, --catalog-property and --namespace are for --as iceberg")
    return Catalog(options.catalog, dict(options.catalog_property), options.namespace or NAMESPACE)


def add_dry_run(parser: ArgumentParser) -> None:
    parser.add_argument("--dry-run", action="store_true", help="only report what would be done; write nothing")


def add_apply(parser: ArgumentParser, help_of_apply: str) -> None:
    """``--apply`` of what changes nothing without it, for which ``--dry-run`` is another name."""
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--apply", action="store_true", help=help_of_apply)
    either.add_argument("--dry-run", action="store_true", help="only report what would be done, as without --apply")


def add_jobs(parser: ArgumentParser) -> None:
    """Add how many threads or processes read, which is limited where commands are run."""
    parser.add_argument("--jobs", type=positive, metavar="N", help=_JOBS_HELP)


def add_redact(parser: ArgumentParser, what: str = "keys") -> None:
    """The option of those commands that show contents of records. ``what``: which."""
    help_of_redact = f"{what} only as a length and a hash (equal bytes in one run: equal hashes)"
    parser.add_argument("--redact", action="store_true", help=help_of_redact)


def add_isolation(parser: ArgumentParser) -> None:
    help_of_isolation = (
        "read_committed leaves out aborted records, and those from the first open transaction on "
        "(default: read_uncommitted)"
    )
    parser.add_argument("--isolation", choices=ISOLATION_LEVELS, default=ISOLATION_LEVELS[0], help=help_of_isolation)


def add_no_prune(parser: ArgumentParser) -> None:
    """Add the option to distrust the times of headers and time indexes."""
    help_of_prune = (
        "read all batches for a range of times, as some clients wrote too small a time into headers, by which other "
        "readers pass over records"
    )
    parser.add_argument("--no-prune", dest="prune", action="store_false", help=help_of_prune)


def add_json_bytes(parser: ArgumentParser) -> None:
    """Add how JSON holds bytes, in both directions."""
    help_of_bytes = (
        'bytes in JSON: as a string where they are UTF-8 and as {"base64": ...} where not, or always as a base64 '
        "string (default: auto)"
    )
    parser.add_argument("--bytes", choices=("auto", "base64"), default="auto", help=help_of_bytes)


def add_decode(parser: ArgumentParser) -> None:
    """Add how keys and values are decoded."""
    add = parser.add_argument
    help_of_decode = "decode keys and values: by the schemas that they name, else as JSON, or as text, or as bytes"
    add("--decode", action="store_true", help=help_of_decode)
    add_schemas(parser)


def add_schemas_path(parser: ArgumentParser) -> None:
    """Add where schemas are."""
    help_of_schemas = (
        "decode, with the schemas that are here: a log directory with the topic _schemas, JSON Lines of that topic, or "
        "a directory of .avsc, .proto and .json files (default: the topic _schemas beside the logs)"
    )
    parser.add_argument("--schemas", metavar="PATH", help=help_of_schemas)


def add_schemas(parser: ArgumentParser) -> None:
    """Add where schemas are, and the formats of what has none."""
    add = parser.add_argument
    add_schemas_path(parser)
    help_of_value = (
        "decode values as FORMAT: schema, avro, protobuf, protobuf-deprecated, json-schema, json, connect-json, "
        "string, bytes, long, int, short, double, float, boolean, uuid (default: auto)"
    )
    add("--value-format", metavar="FORMAT", help=help_of_value)
    help_of_key = "decode keys as FORMAT; also time-windowed:FORMAT and session-windowed:FORMAT (default: auto)"
    add("--key-format", metavar="FORMAT", help=help_of_key)


def decoding(options: Namespace) -> Decoding | None:
    """Return what :func:`add_decode` says; None where nothing is to be decoded."""
    if not (options.decode or options.schemas or options.key_format or options.value_format):
        return None
    from brokerless.typed.topic_type import Decoding

    return Decoding(options.schemas, options.key_format or "auto", options.value_format or "auto")


def add_batch_settings(
    parser: ArgumentParser, *, codec: str | None, message_format: str | None, batch_size: str
) -> None:
    """Add how batches are written. The defaults, None for those of each source batch; ``batch_size`` is its help."""

    add = parser.add_argument
    add(
        "--format",
        choices=FORMATS,
        default=message_format,
        help=f"message format (default: {message_format or 'unchanged'})",
    )
    help_of_codec = f"compression.type of the batches (default: {codec or 'unchanged; zstd becomes gzip in v0 and v1'})"
    add("--codec", choices=COMPRESSION_TYPES, default=codec, help=help_of_codec)
    help_of_level = "compression level, as compression.gzip.level and so on (default: Kafka's default)"
    add("--level", type=integer, metavar="N", help=help_of_level)
    add("--batch-size", type=size_or_0, metavar="SIZE", help=batch_size)


def add_max_batch_bytes(parser: ArgumentParser) -> None:
    """The option of those commands that inflate batches."""
    help_of_size = (
        "bytes that one batch may inflate to, as 500MB or 1GiB (default: 128MiB); a larger one counts as damage. After "
        "eight batches of more than a quarter of it, that quarter is the limit: a small file must not keep a processor "
        "busy"
    )
    parser.add_argument("--max-batch-bytes", type=size, metavar="SIZE", help=help_of_size)


def add_severity(parser: ArgumentParser, *, has_summary: bool = True) -> None:
    """The options of those commands that report findings, and end or begin with a summary of them."""
    help_of_severity = "show findings of this severity or worse (default: info); exit code and summary count all"
    parser.add_argument("--min-severity", choices=("info", "warning", "error"), default="info", help=help_of_severity)
    if not has_summary:
        return
    parser.add_argument("-q", "--quiet", action="store_true", help="only the summary; with --json only the exit code")


def add_all(parser: ArgumentParser, help_of_all: str) -> None:
    """The option of those commands that leave out what is in order, and show findings that say the same as one."""
    parser.add_argument("--all", action="store_true", help=help_of_all)


def add_segment_bytes(parser: ArgumentParser, *, unchanged: bool = False) -> None:
    """The option of those commands that write logs. ``unchanged``: without it, segments begin where those of the
    source do."""
    default = "segments begin where those of the source do" if unchanged else "1GiB"
    parser.add_argument("--segment-bytes", type=size, metavar="SIZE", help=f"segment.bytes (default: {default})")


def add_spark(parser: ArgumentParser) -> None:
    """The options of those commands whose work is done in processes, or on Spark."""
    help_of_master = (
        "do the work on Spark: local[4] for four processors of this machine, spark://HOST:7077 for a cluster whose "
        "machines have the same paths; none for this machine without Spark, with a process for each processor where "
        "it pays (default: none below 32 GiB, or without PySpark and Java; else local[*])"
    )
    either = parser.add_mutually_exclusive_group()
    either.add_argument("--jobs", type=positive, metavar="N", help=_JOBS_HELP)
    either.add_argument("--spark", metavar="MASTER", help=help_of_master)


def add_manifest(parser: ArgumentParser) -> None:
    """The option of those commands that write."""
    help_of_manifest = (
        "record in FILE (JSON Lines) what was read and written, with sizes and hashes, and skip what it says is done"
    )
    parser.add_argument("--manifest", metavar="FILE", help=help_of_manifest)
