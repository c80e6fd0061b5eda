"""Names of members of archives decide no path that is written."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest
from tests.cli.conftest import Run
from tests.golden import broker_data

LOG = f"{0:020}.log"
MEMBERS = (
    f"../victim-0/{LOG}",
    f"orders-0/../../victim-1/{LOG}",
    f"/victim-2/{LOG}",
    f"a/../victim-3/{LOG}",
    f"..-0/{LOG}",
    f"orders-0/../../{LOG}",
    f"orders-0/{LOG}",
)


@pytest.fixture(scope="module")
def log() -> bytes:
    return (broker_data("clean") / "segments-0" / LOG).read_bytes()


def archive(kind: str, path: Path, log: bytes) -> str:
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as file:
            for name in MEMBERS:
                file.writestr(name, log)
    else:
        with tarfile.open(path, "w") as file:
            for name in MEMBERS:
                member = tarfile.TarInfo(name)
                member.size = len(log)
                file.addfile(member, io.BytesIO(log))
    return f"{kind}://::{path}"


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize(
    "command", [["convert", "--codec", "zstd"], ["salvage"], ["merge"], ["salvage", "--as", "parquet"], ["export"]],
    ids=" ".join,
)  # fmt: skip
def test_members_of_an_archive_lead_nowhere_else(
    kind: str, command: list[str], run: Run, tmp_path: Path, log: bytes
) -> None:
    url = archive(kind, tmp_path / "archive", log)
    target = tmp_path / "a/b/c/target"
    target.parent.mkdir(parents=True)
    result = run(*command, url, "--to", target)
    assert "Traceback" not in result.err
    written = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    outside = {path for path in written if not path.startswith("a/b/c/target/")}
    assert outside == {"archive"}
    tops = {path.name for path in target.iterdir()} if target.exists() else set[str]()
    assert any("orders" in name for name in tops), result.err
    assert not [name for name in tops if name.startswith("..")]
