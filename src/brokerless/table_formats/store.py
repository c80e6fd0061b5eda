"""Opens the tables of a format."""

from __future__ import annotations

from brokerless.errors import UsageError
from brokerless.log.storage.location import Location
from brokerless.table_formats.catalog import Catalog, TableFormat
from brokerless.table_formats.delta.tables import DeltaTables
from brokerless.table_formats.iceberg.tables import IcebergTables

TableStore = IcebergTables | DeltaTables


def open_store(
    form: TableFormat,
    to: Location | None,
    catalog: Catalog | None = None,
) -> TableStore:
    """Return the tables of a catalogue, or in a directory, whose options are deltalake's; Iceberg's settings of storage
    are properties of the catalogue.

    Raises :class:`UsageError` where it is not said where tables are.
    """
    if form == "iceberg":
        return IcebergTables(None if to is None else to.path, catalog or Catalog())
    if to is None:
        raise UsageError("--to: give a directory to write to; Delta's tables have no catalogue here")
    if catalog is not None and not catalog.is_own:
        raise UsageError("a catalogue is for Iceberg; Delta's tables are directories")
    return DeltaTables(to)
