"""Whether the Spark that runs can be told how much a micro-batch is to have at most."""

from __future__ import annotations

import pytest
from pyspark.sql.datasource import DataSourceStreamReader

HAS_LIMITS = hasattr(DataSourceStreamReader, "getDefaultReadLimit")
needs_limits = pytest.mark.skipif(not HAS_LIMITS, reason="PySpark 4.1 gives each micro-batch all that is there")


def at_most(offsets: int) -> dict[str, str]:
    """The option, where there is one."""
    return {"maxOffsetsPerTrigger": str(offsets)} if HAS_LIMITS else {}
