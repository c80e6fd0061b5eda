"""One module for each command: its options, the call of the library, its output."""

COMMANDS = {
    "ls": "list partitions: records, bytes, offsets, times, formats, codecs",
    "cat": "print records: as text, by a template, or as JSON Lines",
    "sql": "query records, batches, segments, transactions, groups, topics and findings by SQL",
    "batches": "print batch headers",
    "explain": "explain a batch or an index byte by byte: fields, values, costs",
    "verify": "check every batch and index: checksums, structure, offsets",
    "audit": "report all that the files show: damage, gaps, producers, transactions, checkpoints; with advice",
    "report": "write one page that shows a log: sizes, segments, throughput, producers, groups, findings",
    "restart": "report what a broker's next start would cut, delete, refuse or rebuild",
    "salvage": "copy all intact batches of damaged partitions to new ones, and report what is lost",
    "carve": "extract batches from files of any content, such as the image of a disk",
    "merge": "combine replicas from several brokers' disks into one log per partition",
    "convert": "rewrite partitions in another message format, codec or batch size",
    "erase": "remove or blank some records, leave all others unchanged, and write a signed manifest",
    "prove": "check the manifest of an erasure: signature, hashes, and that all other records are the same",
    "compact": "compact topics as Kafka's cleaner does: the last record of each key stays, at its offset",
    "size": "estimate what topics would take in other formats, codecs and batch sizes",
    "trim": "free space on a full disk: which whole segments can go, and what that costs",
    "export": "write new records to Parquet files, by topic (and date)",
    "load": "write records from Parquet or JSON Lines into new partitions",
    "schema": "list schemas, which topics use them, and the types of keys and values",
    "internals": "decode Kafka's own topics: committed offsets, groups, transactional ids, cluster metadata",
    "cluster": "describe the cluster that some disks were of: nodes, topics with ids, configs, groups, disagreements",
    "completion": "print a script that completes commands, options and paths in bash, zsh or fish",
}
"""Their names and what they do, in the order of the help."""
