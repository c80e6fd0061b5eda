"""The questions of docs/sql.md, asked in Spark's own SQL over the Spark source: the answers are those of DuckDB."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import brokerless

DEMO = "demo/data"

# Keys are version, group, topic and partition (Kafka's OffsetCommitKey), values begin with version and offset.
OFFSETS = """
    SELECT CAST(substring(key, 5, groupSize) AS STRING) AS `group`,
        CAST(substring(key, 7 + groupSize, topicSize) AS STRING) AS topic,
        CAST(conv(hex(substring(key, 7 + groupSize + topicSize, 4)), 16, 10) AS INT) AS partition,
        max_by(CAST(conv(hex(substring(value, 3, 8)), 16, 10) AS BIGINT), offset) AS offset
    FROM (
        SELECT *, CAST(conv(hex(substring(key, 5 + groupSize, 2)), 16, 10) AS INT) AS topicSize
        FROM (
            SELECT key, value, offset, CAST(conv(hex(substring(key, 3, 2)), 16, 10) AS INT) AS groupSize
            FROM records WHERE topic = '__consumer_offsets' AND hex(substring(key, 1, 2)) IN ('0000', '0001')
        )
    )
    GROUP BY ALL
"""

SPARK = {
    "Which topics are the largest?": """
        SELECT topic, partitions, segments, records, sizeInBytes
        FROM (
            SELECT topic, count(DISTINCT partition) AS partitions, count(*) AS segments, sum(sizeInBytes) AS sizeInBytes
            FROM segments GROUP BY topic
        ) JOIN (SELECT topic, count(*) AS records FROM records GROUP BY topic) USING (topic)
        ORDER BY sizeInBytes DESC""",
    "How many bytes does a record take?": """
        SELECT topic, round(sizeInBytes / records, 1) AS bytesPerRecord
        FROM (SELECT topic, sum(sizeInBytes) AS sizeInBytes FROM segments GROUP BY topic)
        JOIN (SELECT topic, count(*) AS records FROM records GROUP BY topic) USING (topic)
        ORDER BY 2 DESC""",
    "How many records came in each hour?": """
        SELECT date_trunc('hour', timestamp) AS hour, count(*) AS records
        FROM payments GROUP BY ALL ORDER BY hour DESC LIMIT 5""",
    "And on each day?": """
        SELECT CAST(timestamp AS DATE) AS day, count(*) AS records FROM orders GROUP BY ALL ORDER BY day""",
    "What is the last value of each key?": """
        SELECT CAST(key AS STRING) AS key, max_by(CAST(value AS STRING), offset) AS last
        FROM users GROUP BY ALL ORDER BY key LIMIT 3""",
    "Which keys are the most frequent?": """
        SELECT CAST(key AS STRING) AS key, count(*) AS records
        FROM orders GROUP BY ALL ORDER BY records DESC, key LIMIT 5""",
    "How many keys are there?": """
        SELECT topic, count(DISTINCT key) AS keys, count(*) AS records FROM records GROUP BY ALL ORDER BY topic""",
    "How often is a key repeated?": """
        SELECT times, count(*) AS keys FROM (SELECT key, count(*) AS times FROM users GROUP BY ALL)
        GROUP BY ALL ORDER BY times LIMIT 5""",
    "Which records are the same as an earlier one?": """
        SELECT topic, count(*) - count(DISTINCT struct(key, value)) AS repeated
        FROM records WHERE topic IN ('orders', 'payments', 'users') GROUP BY ALL ORDER BY topic""",
    "Which producers wrote the most bytes?": """
        SELECT topic, producerId, sum(sizeInBytes) AS bytes, sum(count) AS records
        FROM batches GROUP BY ALL ORDER BY bytes DESC, producerId LIMIT 5""",
    "Which codecs are in use?": """
        SELECT topic, compression, count(*) AS batches, sum(sizeInBytes) AS bytes
        FROM batches GROUP BY ALL ORDER BY topic, compression""",
    "How full are batches?": """
        SELECT topic, round(avg(count), 1) AS records, round(avg(sizeInBytes)) AS bytes
        FROM batches WHERE NOT isControl GROUP BY ALL ORDER BY topic""",
    "Are there gaps in the offsets?": """
        SELECT topic, partition, max(offset) - min(offset) + 1 - count(*) AS missing
        FROM records GROUP BY ALL HAVING missing > 0 ORDER BY ALL""",
    "Where are the first gaps?": """
        SELECT partition, offset, offset - before - 1 AS missing
        FROM (
            SELECT partition, offset, lag(offset) OVER (PARTITION BY partition ORDER BY offset) AS before FROM payments
        )
        WHERE offset - before - 1 > 0 ORDER BY ALL LIMIT 3""",
    "How far behind are groups?": f"""
        WITH ends AS (SELECT topic, partition, max(lastOffset) + 1 AS endOffset FROM segments GROUP BY ALL),
            offsets AS ({OFFSETS})
        SELECT `group`, topic, partition, o.offset, endOffset, endOffset - o.offset AS lag
        FROM offsets AS o JOIN ends USING (topic, partition) ORDER BY ALL""",
    "What share of transactions was aborted?": """
        SELECT count(*) AS transactions, round(avg(CAST(state = 'aborted' AS INT)), 3) AS aborted FROM transactions""",
    "How long do transactions take?": """
        SELECT state, count(*) AS n, max(unix_millis(lastTimestamp) - unix_millis(firstTimestamp)) AS longestMs
        FROM transactions GROUP BY ALL ORDER BY state""",
    "Which headers are there?": """
        SELECT header.key AS header, count(*) AS records FROM (SELECT explode(headers) AS header FROM records)
        GROUP BY ALL ORDER BY records DESC, header""",
    "Which values does a header have?": """
        SELECT CAST(header.value AS STRING) AS source, count(*) AS records
        FROM (SELECT explode(headers) AS header FROM orders) WHERE header.key = 'source'
        GROUP BY ALL ORDER BY source""",
    "How many values are null, and how large are the others?": """
        SELECT topic, count(*) - count(value) AS nulls, sum(octet_length(value)) AS bytes,
            max(octet_length(value)) AS largest
        FROM records GROUP BY ALL ORDER BY topic""",
    "Are timestamps in the order of the offsets?": """
        SELECT topic, partition, count(*) AS earlier
        FROM (
            SELECT topic, partition,
                timestamp < lag(timestamp) OVER (PARTITION BY topic, partition ORDER BY offset) AS isEarlier
            FROM records
        )
        WHERE isEarlier GROUP BY ALL ORDER BY ALL""",
    "Do partitions have equal shares?": """
        SELECT partition, count(*) AS records, round(100 * count(*) / sum(count(*)) OVER (), 1) AS percent
        FROM orders GROUP BY ALL ORDER BY partition""",
    "What is in the values?": """
        SELECT get_json_object(CAST(value AS STRING), '$.status') AS status, count(*) AS records
        FROM orders GROUP BY ALL ORDER BY records DESC""",
    "What came in a minute?": """
        SELECT partition, offset, CAST(key AS STRING) AS key FROM orders
        WHERE timestamp >= '2026-11-21 07:46:00Z' AND timestamp < '2026-11-21 07:47:00Z' ORDER BY ALL""",
}
NOT_ASKED = {"Is anything damaged?": "Spark has no table of findings; tests/spark/test_jobs.py has audit on Spark"}


def questions() -> dict[str, str]:
    """Question -> DuckDB's SQL."""
    text = Path("docs/sql.md").read_text().partition("## Questions\n")[2]
    found = re.findall(r"^\*\*(.+)\*\*\n\n```sh-session\n\$ (.*)\n", text, re.MULTILINE)
    return {question: shlex.split(command)[2] for question, command in found}


def test_each_question_is_asked_here() -> None:
    assert set(questions()) == {*SPARK, *NOT_ASKED}
    assert len(questions()) == 25


@pytest.fixture(scope="module")
def asked(spark: SparkSession) -> SparkSession:
    for table in ("records", "batches", "segments", "transactions"):
        reader = spark.read.format("brokerless").option("table", table)
        if table == "records":
            reader = reader.option("includeHeaders", "true")
        reader.load(DEMO).createOrReplaceTempView(table)
    for topic in ("orders", "payments", "users"):
        reader = spark.read.format("brokerless").option("includeHeaders", "true").option("subscribe", topic)
        reader.load(DEMO).createOrReplaceTempView(topic)
    return spark


@pytest.mark.parametrize("question", SPARK)
def test_spark_answers_the_same(asked: SparkSession, question: str) -> None:
    wanted = brokerless.open(DEMO).sql(questions()[question]).read_all().to_pylist()
    assert wanted
    rows = [row.asDict() for row in asked.sql(SPARK[question]).collect()]
    assert [comparable(row) for row in rows] == [comparable(row) for row in wanted]


def comparable(row: dict[str, object]) -> dict[str, object]:
    """Spark's timestamps come in the machine's time zone; sums and averages are decimals in one or the other."""
    return {name: plain(value) for name, value in row.items()}


def plain(value: object) -> object:
    match value:
        case Decimal() | float():
            return round(float(value), 3)
        case datetime():
            return value.astimezone(UTC)
        case _:
            return value
