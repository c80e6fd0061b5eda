"""One module for each command: its options, the call of the library, its output."""

COMMANDS = {
    "ls": "list partitions: records, bytes, offsets, times, formats, codecs; what is left of deleted topics",
    "cat": "print records: find a key, a text, a time; as text, by a template, as CSV or JSON Lines",
    "sql": "query records, batches, segments, transactions, groups, topics and findings by SQL",
    "batches": "print batch headers: offsets, times, codecs, producers, transactions",
    "explain": "explain a batch or an index byte by byte: fields, values, costs",
    "schema": "list schemas (Avro, Protobuf, JSON), which topics use them, and the types of keys and values",
    "internals": "decode Kafka's own topics: committed offsets, lag, groups, transactional ids, metadata",
    "verify": "check every batch and index: checksums, structure, offsets",
    "audit": "report all that the files show: damage, duplicates, open transactions, stuck consumers; with advice",
    "restart": "report what a broker's next start would cut, delete, refuse or rebuild",
    "size": "estimate sizes in other formats and codecs; who writes most: producers, keys, hours",
    "report": "write one page that shows a log: sizes, segments, throughput, producers, groups, findings",
    "cluster": "describe the cluster that some disks were of: nodes, topics with ids, configs, groups, disagreements",
    "salvage": "copy all intact batches of damaged partitions to new ones, and report what is lost",
    "carve": "extract batches from files of any content, such as the image of a disk",
    "merge": "combine replicas from several brokers' disks into one log per partition",
    "trim": "free space on a full disk: which whole segments can go, and what that costs",
    "rebuild": "make the log directories of a cluster again from its disks, so that brokers start on them",
    "restore": "restore topics into a running cluster, with their groups' offsets",
    "serve": "let every Kafka client read log directories, as from a broker that takes no writes",
    "export": "write new records to tables of Iceberg or Delta, or to Parquet files, by topic (and date)",
    "pipeline": "keep tables of log directories: find what is new, verify, export, report; resumable, on Spark or not",
    "load": "write records from Parquet or JSON Lines into new partitions",
    "convert": "rewrite partitions in another message format, codec or batch size",
    "compact": "compact topics as Kafka's cleaner does: the last record of each key stays, at its offset",
    "erase": "remove or blank some records (GDPR), leave all others unchanged, and write a signed manifest",
    "prove": "check the manifest of an erasure: signature, hashes, and that all other records are the same",
    "completion": "print a script that completes commands, options and paths in bash, zsh or fish",
}
"""Their names and what they do."""
GROUPS = {
    "read": ("ls", "cat", "sql", "batches", "explain", "schema", "internals"),
    "check": ("verify", "audit", "restart", "size", "report", "cluster"),
    "serve": ("serve",),
    "repair": ("salvage", "carve", "merge", "trim", "rebuild", "restore"),
    "write": ("export", "pipeline", "load", "convert", "compact"),
    "erase": ("erase", "prove"),
    "shell": ("completion",),
}
"""The commands of each task, in the order of the help."""
