"""``brokerless sql`` starts without pandas, also where that is installed."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
from brokerless.cli import main
try:
    code = main()
finally:
    print("pandas" in sys.modules)
import pyarrow as pa
print(pa.table({"a": [1]}).to_pandas().shape, code)
"""


def test_arrows_datasets_are_imported_without_pandas() -> None:
    command = [sys.executable, "-c", PROGRAM, "sql", "SELECT count(*) FROM payments WHERE partition = 0", "demo/data"]
    done = subprocess.run([*command, "--csv"], capture_output=True, text=True, check=True)
    assert done.stdout.split("\n") == ["count_star()", "1543", "False", "(1, 1) 0", ""]
