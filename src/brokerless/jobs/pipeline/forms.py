"""The formats of tables that a pipeline writes, the default first."""

from __future__ import annotations

from brokerless.requests.writing import ExportForm

FORMS: tuple[ExportForm, ...] = ("iceberg", "delta", "parquet")
