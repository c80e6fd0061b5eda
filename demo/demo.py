"""The tour of ``make demo``: looks at ``demo/data``, a log directory that a real Kafka wrote (``make_data.py``).

Each step shows its command before it runs it, so that it can be repeated by hand. Exits with 1 if a step fails.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON = ".venv/bin/python"
BROKERLESS = ".venv/bin/brokerless"
REPORT = ".cache/report.html"
BACKUP = [BROKERLESS, "backup", "demo/data"]

COUNT = """\
import brokerless
log = brokerless.open("demo/data")
records = sum(batch.num_rows for batch in log.records(["offset"]))
closed = sum(not valid for batch in log.partition("users", 0).records(["value"]) for valid in batch["value"].is_valid())
print(f"{len(log.partitions)} partitions, {records:,} records; users has {closed} tombstones of closed accounts")
"""

NEXT = """\
That was a folder of files and no broker. What to try next:

  .venv/bin/brokerless ls demo/data --json                               the same for programs
  .venv/bin/brokerless batches demo/data/payments-0                      batches, producers, markers of transactions
  .venv/bin/brokerless cat demo/data/payments-0 --control                with commits and aborts
  .venv/bin/brokerless cat demo/data/orders-1 --json --tail 3            JSON Lines, for jq
  .venv/bin/brokerless internals demo/data                               groups, transactions, topics
  .venv/bin/brokerless load --help                                       Parquet or JSON Lines into partitions
  .venv/bin/brokerless ls /var/lib/kafka/data                            your own: a folder, a partition, or one .log

README.md has more of the command line, Python and Spark.
"""


def main() -> int:
    os.chdir(ROOT)
    version = Path("demo/kafka-version").read_text().strip()
    step(f"What is in the log directory, which a broker of Kafka {version} wrote", [BROKERLESS, "ls", "demo/data"])
    step("Is every batch sound, and does every index fit its log", [BROKERLESS, "verify", "demo/data"])
    step("The first records of a partition", [BROKERLESS, "cat", "demo/data/orders-0", "--limit", "3"])
    step("The same from Python, as Arrow", [PYTHON, "-c", COUNT], shown=f"{PYTHON} - <<'END'\n{COUNT}END")
    with tempfile.TemporaryDirectory() as scratch:
        convert = [BROKERLESS, "convert", "demo/data", "--topic", "orders", "--codec", "zstd", "--batch-size", "64KiB"]
        step("A topic in fewer bytes, as partitions that a broker can serve", [*convert, "--to", scratch])
        step("They have the same records", [BROKERLESS, "ls", scratch])
        tables = f"{scratch}/tables"
        pipeline = [BROKERLESS, "pipeline", "demo/data", "--to", tables, "--no-report", "--decode"]
        step("All topics as tables of Iceberg, verified before; with --spark on a cluster", pipeline)
        step("Another run does what is new since", pipeline)
        backup, name = f"{scratch}/backup", "today"
        step("All of it as a snapshot in a bucket that brokers read", [*BACKUP, "--to", backup, "--name", name])
        step("A snapshot is read as the log directory", [BROKERLESS, "ls", f"{backup}@{name}"])
        step("Is all of it there, as it was stored", [BROKERLESS, "check", backup, "--read", "all"])
    step("Spark SQL on the files (its start takes some seconds)", [PYTHON, "demo/query.py"], quiet=True)
    step("A page with charts of all that, which needs no network", [BROKERLESS, "report", "demo/data", "-o", REPORT])
    print(NEXT)
    print(f"The page is {ROOT / REPORT}; open it in a browser.")
    return 0


def step(title: str, command: list[str], *, shown: str | None = None, quiet: bool = False) -> None:
    """Runs a command and shows it. Ends the demo if it fails; ``quiet``: only then its stderr is shown."""
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"{bold}{title}{plain}\n\n$ {shown or shlex.join(command)}", flush=True)
    with tempfile.TemporaryFile() as log:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, stderr=log if quiet else None, check=False)
        if done.returncode != 0:
            log.seek(0)
            lines = log.read().decode(errors="replace").splitlines()
            sys.stderr.writelines(f"{line}\n" for line in lines if not line.startswith("\tat "))  # Java's stack traces
            sys.exit(f"demo: this step failed with exit code {done.returncode}")
    print(flush=True)


if __name__ == "__main__":
    sys.exit(main())
