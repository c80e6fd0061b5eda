"""What a bug report needs: versions of Python and libraries, the platform, where compiled code is kept."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version

_NEEDED = ("pyarrow", "numpy", "numba", "llvmlite", "fsspec")
_CODECS = ("cramjam", "deflate", "isal", "lz4", "xxhash", "zstandard")
_EXTRAS = (
    *("altair", "confluent-kafka", "deltalake", "duckdb", "fastavro", "grpcio-tools", "pandas", "polars"),
    *("protobuf", "pyiceberg", "pyspark", "s3fs"),
)


def version_lines() -> Iterator[str]:
    """Lines for people: a name and what it is."""
    import brokerless
    from brokerless.format.kernel import describe_kernels

    yield _line("python", f"{platform.python_version()}, {sys.executable}")
    yield _line("platform", platform.platform())
    yield _line("package", str(brokerless.__path__[0]))
    for name, packages in (("libraries", _NEEDED), ("codecs", _CODECS), ("extras", _EXTRAS)):
        yield _line(name, ", ".join(f"{each} {number}" for each in packages if (number := _version(each))) or "none")
    yield _line("kernels", describe_kernels())


def _line(name: str, text: str) -> str:
    return f"{name:10}{text}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
