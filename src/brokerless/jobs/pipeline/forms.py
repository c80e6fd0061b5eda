"""The formats of tables that a pipeline writes, the default first."""

from __future__ import annotations

from typing import Literal

Form = Literal["iceberg", "delta", "parquet"]
FORMS: tuple[Form, ...] = ("iceberg", "delta", "parquet")
