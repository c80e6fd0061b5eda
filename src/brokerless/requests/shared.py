"""Options of several requests: one name, one meaning, one sentence."""

from __future__ import annotations

from brokerless.kafka_names import ISOLATION_LEVELS
from brokerless.requests import option_types as types
from brokerless.requests.option_types import one_of
from brokerless.requests.options import Option

PATHS = Option(types.PATHS, "log directories or partitions' directories, or files; local, or URLs", flag=None)
LOGS = Option(
    types.PATHS_OR_LOGS,
    "log directories or partitions' directories, or files; local, or URLs, or what open returned, such as of encrypted "
    "segments with their keys",
    flag=None,
)
TOPICS = Option(types.NAME_LIST, "only these topics, by name", flag=None)
INCLUDE = Option(
    types.NAMES, "also read what a broker does not serve: deleted, future, delete or stray, as in open", flag=None
)
KEY_PAIR = Option(
    types.KEY_PAIRS,
    "a private key (PEM) of encrypted remote segments, by the name of its key pair; can be repeated",
    flag="--key-pair",
    is_repeated=True,
)
DONE = Option(
    types.FUNCTION, "called with the number of bytes that were read or written since the last call", flag=None
)
ON_FINDING = Option(types.FUNCTION, "called with each Finding", flag=None)
TO = Option(types.URL, "directory or URL to write to; created if it does not exist")
TO_OR_CATALOG = Option(types.URL_OR_NONE, f"{TO.sentence}; by default where the catalogue has its tables")
OTHERS = Option(
    types.LOGS,
    "more logs for the same run, such as those of other brokers; each log directory is then written to a "
    "directory of its own name within the target",
    flag=None,
)
STORAGE_OPTIONS = Option(types.STORAGE, "options of a URL, as fsspec takes them", flag=None)
ON_DAMAGE = Option(
    types.FUNCTION,
    "called with each Finding, and what is damaged is not written; without it, the first error is raised",
    flag=None,
)
ON_LOSS = Option(types.FUNCTION, "called with each Finding on intact data that was left out", flag=None)
SPARK = Option(
    types.SPARK,
    "run on Spark, with a task for each partition: a session, or a master such as local[4], for which one is "
    "started. By default, this process does all of it",
)
SEGMENTS_OR_PARQUET = Option(
    one_of("segments", "parquet"),
    "what to write: logs that a broker can serve (segments, the default), or Parquet files",
)
SPREAD = Option(
    types.FLAG,
    "of a snapshot: make the directories of each node that had replicas; without it, one node has all partitions",
)
DRY_RUN = Option(types.FLAG, "only report what would be done; write nothing")
MAX_BATCH_BYTES = Option(
    types.SIZE,
    "bytes that one batch may inflate to (default: 128MiB); a larger one counts as damage. After eight batches of more "
    "than a quarter of it, that quarter is the limit: a small file must not keep a processor busy",
)
SEGMENT_BYTES = Option(types.SIZE, "segment.bytes (default: segments begin where those of the source do)")
NEW_SEGMENT_BYTES = Option(types.SIZE, "segment.bytes (default: 1GiB)")
ISOLATION = Option(
    one_of(*ISOLATION_LEVELS),
    "read_committed leaves out aborted records, and those from the first open transaction on (default: "
    "read_uncommitted)",
)
MANIFEST = Option(
    types.PATH,
    "record in this file (JSON Lines) what was read and written, with sizes and hashes, and skip what it says is done",
)
LEVEL = Option(types.NUMBER, "compression level, as compression.gzip.level and so on (default: Kafka's default)")
LOG_DIRS = Option(
    types.PATH_LIST, "the other log directories of the same broker, which starts with all of them", flag=None
)
BUCKET = Option(
    types.PATHS,
    "the bucket of tiered topics, to count the objects that a start would delete; can be repeated",
    metavar="URL",
    is_repeated=True,
)
DECODE = Option(
    types.DECODE, "decode keys and values: by the schemas that they name, else as JSON, text or bytes", flag=None
)
