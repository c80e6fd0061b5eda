"""Writes ``demo/data`` anew: a week of a small web shop, in the log directory of a real broker of the newest Kafka that
the tests know; ``demo/kafka-version`` says which version it was.

Run it as ``make demo-data``. What happens in the week is the same each time; it is the week that ends with the run,
since the broker stamps the ends of transactions with its own clock.

- ``orders``: three partitions; several clients, so all codecs and some headers; small segments.
- ``payments``: written in transactions. One was aborted and its payments were booked again in the next one, so whoever
  counts aborted records counts money twice.
- ``users``: compacted, with tombstones of closed accounts.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
import time
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from confluent_kafka import Consumer
from tests.kafka.broker import KafkaBroker
from tests.kafka.producers import Record, produce_aiokafka, produce_confluent, produce_java

DATA = Path(__file__).parent / "data"
VERSION = Path(__file__).parent / "kafka-version"
END = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
WEEK = timedelta(days=6, hours=18)  # a little less, as a broker closes a segment after a week
START = END - WEEK
ORDERS = 1500
SEGMENT_BYTES = 32 << 10
PARTITIONS = 3

GOODS = {
    "KTL-017": ("Kettle, 1.7 l", 39.90),
    "MUG-BLU": ("Mug, blue", 8.50),
    "LMP-E27": ("Desk lamp", 54.00),
    "BAG-CVS": ("Canvas bag", 17.25),
    "NBK-A5D": ("Notebook A5, dotted", 6.80),
    "CHR-OAK": ("Chair, oak", 189.00),
    "TEA-DRJ": ("Darjeeling, 250 g", 14.60),
}
COUNTRIES = ("DE", "FR", "NL", "PL", "SE", "ES")
SOURCES = ("web", "app", "pos")


def main() -> None:
    chance = random.Random(20251124)
    with tempfile.TemporaryDirectory() as scratch:
        with KafkaBroker(Path(scratch)) as broker:
            broker.create_topic("orders", PARTITIONS, internal_segment_bytes=SEGMENT_BYTES, retention_ms=-1)
            broker.create_topic("payments", retention_ms=-1)
            broker.create_topic(
                "users",
                cleanup_policy="compact",
                internal_segment_bytes=8 << 10,
                min_cleanable_dirty_ratio=0.01,
                file_delete_delay_ms=100,
            )
            write_users(broker, chance)
            orders = list(order_events(chance))
            write_orders(broker, orders)
            write_payments(broker, orders)
            commit_offsets(broker, "orders", "shipping")
            wait_for_compaction(broker)
        shutil.rmtree(DATA, ignore_errors=True)
        broker.copy_log_dir(DATA)
        VERSION.write_text(f"{broker.version}\n")
    size = sum(file.stat().st_size for file in DATA.rglob("*") if file.is_file())
    print(f"{DATA}: {size:,} bytes in {sum(file.is_file() for file in DATA.rglob('*'))} files")


def order_events(chance: random.Random) -> Iterator[Record]:
    """Orders as they are placed and, later, paid, shipped or cancelled; in order of time."""
    events: list[tuple[datetime, dict[str, object], str]] = []
    for number in range(ORDERS):
        at = START + chance.betavariate(2, 2) * WEEK
        items = [
            {"sku": sku, "name": GOODS[sku][0], "quantity": chance.randint(1, 3), "price": GOODS[sku][1]}
            for sku in chance.sample(list(GOODS), chance.randint(1, 3))
        ]
        order = {
            "order": f"o-{100_000 + number}",
            "customer": f"u-{chance.randint(1, 200):04}",
            "status": "placed",
            "country": chance.choice(COUNTRIES),
            "items": items,
            "total": round(sum(item["quantity"] * item["price"] for item in items), 2),
            "currency": "EUR",
        }
        source = chance.choice(SOURCES)
        events.append((at, order, source))
        later = "cancelled" if chance.random() < 0.07 else "paid"
        change = {"order": order["order"], "customer": order["customer"], "status": later, "total": order["total"]}
        events.append((at + timedelta(seconds=chance.randint(20, 600)), change, source))
        if later == "paid" and chance.random() < 0.6:
            shipped = {**change, "status": "shipped", "carrier": chance.choice(("DHL", "DPD", "UPS"))}
            events.append((at + timedelta(hours=chance.randint(4, 40)), shipped, source))
    for at, event, source in sorted(events, key=lambda each: each[0]):
        if at > END:
            continue
        key = str(event["order"]).encode()
        trace = f"{chance.getrandbits(64):016x}".encode()
        headers = (("source", source.encode()), ("trace-id", trace), ("content-type", b"application/json"))
        yield Record(key, to_json(event), headers, milliseconds(at), zlib.crc32(key) % PARTITIONS)


def write_orders(broker: KafkaBroker, orders: list[Record]) -> None:
    """Each half day another client with another codec, as after years of a real system."""
    clients = [
        (produce_confluent, "zstd"),
        (produce_java, "lz4"),
        (produce_aiokafka, "gzip"),
        (produce_confluent, "snappy"),
        (produce_java, "none"),
        (produce_confluent, "lz4"),
    ]
    batch = len(orders) // (2 * len(clients)) + 1
    for turn, start in enumerate(range(0, len(orders), batch)):
        produce, codec = clients[turn % len(clients)]
        size = {"max_batch_size": 8 << 10} if produce is produce_aiokafka else {"batch_size": 8 << 10}
        produce(broker, "orders", orders[start : start + batch], codec, **size)


def write_payments(broker: KafkaBroker, orders: list[Record]) -> None:
    """The payments of the paid orders, some in each transaction; the fourth is aborted and done again."""
    payments: list[Record] = []
    for order in orders:
        event = json.loads(order.value or b"{}")
        if event["status"] == "paid":
            payment = {"payment": event["order"].replace("o-", "p-"), "order": event["order"], "amount": event["total"]}
            headers = (("source", b"payments"),)
            payments.append(Record(event["order"].encode(), to_json(payment), headers, order.timestamp))
    batch = len(payments) // 10 + 1
    for turn, start in enumerate(range(0, len(payments), batch)):
        part = payments[start : start + batch]
        if turn == 3:
            produce_confluent(broker, "payments", part, "lz4", "abort")
        produce_confluent(broker, "payments", part, "lz4", "commit")


def write_users(broker: KafkaBroker, chance: random.Random) -> None:
    """Accounts that are opened, changed several times, and sometimes closed with a tombstone."""
    at = START - timedelta(days=30)
    users: list[Record] = []
    for turn in range(4):
        for number in range(1, 201):
            if turn and chance.random() < 0.3:
                continue
            at += timedelta(seconds=chance.randint(60, 3600))
            user = {
                "user": f"u-{number:04}",
                "country": chance.choice(COUNTRIES),
                "newsletter": chance.random() < 0.4,
                "since": (START - timedelta(days=30 * number)).date().isoformat(),
            }
            closed = turn == 2 and number % 17 == 0
            users.append(Record(f"u-{number:04}".encode(), None if closed else to_json(user), (), milliseconds(at)))
    produce_java(broker, "users", users, "none", batch_size=4 << 10)


def commit_offsets(broker: KafkaBroker, topic: str, group: str) -> None:
    """A consumer group that has read some of a topic, so that the broker has offsets to keep."""
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 3}
    )
    consumer.subscribe([topic])
    consumer.consume(500, timeout=20)
    consumer.commit(asynchronous=False)
    consumer.close()


def wait_for_compaction(broker: KafkaBroker) -> None:
    """Waits until the segments that compaction replaced are deleted."""
    checkpoint = broker.log_dir / "cleaner-offset-checkpoint"
    users = broker.log_dir / "users-0"
    give_up = time.monotonic() + 60
    while not checkpoint.exists() or "users 0 " not in checkpoint.read_text() or list(users.glob("*.deleted")):
        if time.monotonic() > give_up:
            raise RuntimeError(f"users was not compacted: {broker.tail()}")
        time.sleep(0.2)


def to_json(event: dict[str, object]) -> bytes:
    return json.dumps(event, separators=(",", ":")).encode()


def milliseconds(at: datetime) -> int:
    return int(at.timestamp() * 1000)


if __name__ == "__main__":
    main()
