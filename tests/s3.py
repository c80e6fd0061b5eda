"""An S3 server (moto's) in a process of its own, and its credentials as users give them: in the environment.

Tests that use it are of one ``xdist_group``: ``pytestmark = pytest.mark.xdist_group("s3")``.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

SERVER = """
import functools, gc, logging, sys
from moto.moto_server.werkzeug_app import DomainDispatcherApplication
from moto.server import ThreadedMotoServer

# Without it, each request looks twice at 180 directories of moto, which is a third of its time.
remembered = functools.cache(DomainDispatcherApplication.get_backend_for_host)
DomainDispatcherApplication.get_backend_for_host = remembered
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
gc.freeze()
gc.set_threshold(50_000, 20, 100)
server.start()
print("port", server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""
ENVIRONMENT = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "us-east-1"}


@dataclass(frozen=True)
class S3:
    """A server with one bucket. ``storage_options``: the same credentials as Python's users give them."""

    endpoint: str
    bucket: str = "bucket"

    @property
    def storage_options(self) -> dict[str, Any]:
        return {"key": "key", "secret": "secret", "endpoint_url": self.endpoint, "use_listings_cache": False}

    def file_system(self) -> Any:
        import fsspec

        return fsspec.filesystem("s3", **self.storage_options)

    def url(self, path: str) -> str:
        return f"s3://{self.bucket}/{path}"

    def upload(self, directory: Path, path: str) -> str:
        """All files of a directory, and the URL where they are."""
        fs = self.file_system()
        for file in directory.rglob("*"):
            if file.is_file():
                fs.pipe_file(f"{self.bucket}/{path}/{file.relative_to(directory)}", file.read_bytes())
        return self.url(path)


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """The server, and in the environment how to get there."""
    with subprocess.Popen([sys.executable, "-c", SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        port = re.search(rb"port (\d+)", process.stdout.readline())
        assert port is not None
        server = S3(f"http://127.0.0.1:{int(port[1])}")
        server.file_system().mkdir(server.bucket)
        with pytest.MonkeyPatch.context() as patched:
            for name, value in {**ENVIRONMENT, "AWS_ENDPOINT_URL": server.endpoint}.items():
                patched.setenv(name, value)
            yield server
        process.stdin.close()
