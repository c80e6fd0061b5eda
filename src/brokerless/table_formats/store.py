"""Opens the tables of a format."""

from __future__ import annotations

import os

from brokerless.errors import UsageError
from brokerless.log.storage.location import StorageOptions
from brokerless.table_formats.catalog import Catalog, TableFormat
from brokerless.table_formats.delta import DeltaTables
from brokerless.table_formats.iceberg import IcebergTables

Tables = IcebergTables | DeltaTables


def open_store(
    form: TableFormat,
    to: str | os.PathLike[str] | None,
    catalog: Catalog | None = None,
    storage_options: StorageOptions | None = None,
) -> Tables:
    """The tables of a catalogue, or in a directory. ``storage_options``: deltalake's; Iceberg's settings of storage are
    properties of the catalogue.

    Raises :class:`UsageError` where it is not said where tables are.
    """
    own = None if to is None else os.fspath(to)
    if form == "iceberg":
        return IcebergTables(own, catalog or Catalog())
    if own is None:
        raise UsageError("give a directory to write to; Delta's tables have no catalogue here")
    if catalog is not None and not catalog.is_own:
        raise UsageError("a catalogue is for Iceberg; Delta's tables are directories")
    return DeltaTables(own, storage_options)
