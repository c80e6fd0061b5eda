"""An object store on this machine that answers as S3 does, each request some time later: listings, sizes and ranges.

``python -m benchmarks.object_server DIRECTORY DELAY`` prints its port, and ends when its stdin does. What it was
requested since the last time is at ``/-/requests``: how many requests of each kind, and bytes of objects.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

from benchmarks.measure import ROOT

BUCKET = "bucket"
_WHEN = "Thu, 01 Jan 2026 00:00:00 GMT"


@dataclass(frozen=True)
class ObjectServer:
    """One that runs. ``options``: as ``brokerless.open`` takes them for :attr:`url`."""

    port: int

    @property
    def url(self) -> str:
        return f"s3://{BUCKET}"

    @property
    def options(self) -> dict[str, Any]:
        endpoint = f"http://127.0.0.1:{self.port}"
        return {"key": "key", "secret": "secret", "endpoint_url": endpoint, "use_listings_cache": False}

    def requests(self) -> dict[str, float]:
        """Requests by their kind (``GetObject``), and ``bytes``, since the last call."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/requests") as answer:
            return json.loads(answer.read())


@contextlib.contextmanager
def serving(directory: Path, delay: float) -> Iterator[ObjectServer]:
    """A server of what is in a directory, in a process of its own; ``delay`` in seconds."""
    command = [sys.executable, "-m", __name__, str(directory), str(delay)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield ObjectServer(int(process.stdout.readline()))
        finally:
            process.stdin.close()


def handler(root: Path, delay: float) -> type[BaseHTTPRequestHandler]:
    """What answers one request."""
    seen: Counter[str] = Counter()
    lock = threading.Lock()

    def count(name: str, size: int = 0) -> None:
        with lock:
            seen.update({name: 1, "bytes": size})

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

        def do_HEAD(self) -> None:
            time.sleep(delay)
            count("HeadObject")
            path = self._path()
            if path.is_file():
                self._head(200, path.stat().st_size, path)
            else:
                self._head(404, 0)

        def do_GET(self) -> None:
            if self.path == "/-/requests":
                with lock:
                    answer = json.dumps(seen).encode()
                    seen.clear()
                self._head(200, len(answer))
                self.wfile.write(answer)
                return
            time.sleep(delay)
            query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
            if "list-type" in query:
                count("ListObjectsV2")
                answer = listing(root, query.get("prefix", [""])[0], query.get("delimiter", [""])[0]).encode()
                self._head(200, len(answer))
                self.wfile.write(answer)
                return
            self._send(self._path())

        def _path(self) -> Path:
            name = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
            return root / name.removeprefix(f"/{BUCKET}").lstrip("/")

        def _send(self, path: Path) -> None:
            if not path.is_file():
                count("GetObject")
                body = b"<Error><Code>NoSuchKey</Code></Error>"
                self._head(404, len(body))
                self.wfile.write(body)
                return
            size = path.stat().st_size
            start, end = 0, size - 1
            wanted = self.headers.get("Range", "")
            if wanted:
                first, _, last = wanted.removeprefix("bytes=").partition("-")
                start, end = int(first), min(int(last or end), size - 1)
            count("GetObject", end + 1 - start)
            self._head(206 if wanted else 200, end + 1 - start, path, f"bytes {start}-{end}/{size}")
            with path.open("rb") as file:
                file.seek(start)
                self.wfile.flush()
                sent = 0
                while sent < end + 1 - start:
                    sent += self.connection.sendfile(file, start + sent, end + 1 - start - sent)

        def _head(self, code: int, length: int, path: Path | None = None, content_range: str = "") -> None:
            self.send_response(code)
            self.send_header("Content-Length", str(length))
            if path is not None:
                self.send_header("ETag", etag(path))
                self.send_header("Last-Modified", _WHEN)
                self.send_header("Content-Type", "binary/octet-stream")
            if content_range:
                self.send_header("Content-Range", content_range)
            self.end_headers()

    return Handler


def etag(path: Path) -> str:
    return f'"{path.stat().st_ino:x}"'


def listing(root: Path, prefix: str, delimiter: str) -> str:
    """The names that begin with a prefix, in S3's XML, all at once; those that go on after a delimiter by that."""
    above = root / prefix.rpartition("/")[0]
    objects: list[str] = []
    prefixes: list[str] = []
    found: Callable[[], Iterator[Path]] = above.iterdir if delimiter else lambda: above.rglob("*")
    for each in sorted(found()) if above.is_dir() else ():
        name = escape(str(each.relative_to(root)))
        if not name.startswith(escape(prefix)):
            continue
        if each.is_dir():
            prefixes += [f"<CommonPrefixes><Prefix>{name}/</Prefix></CommonPrefixes>"] if delimiter else []
        else:
            objects.append(
                f"<Contents><Key>{name}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
                f"<ETag>{escape(etag(each))}</ETag><Size>{each.stat().st_size}</Size></Contents>"
            )
    head = f"<Name>{BUCKET}</Name><Prefix>{escape(prefix)}</Prefix><KeyCount>{len(objects)}</KeyCount>"
    body = f"{head}<MaxKeys>1000000</MaxKeys><IsTruncated>false</IsTruncated>{''.join(objects)}{''.join(prefixes)}"
    namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
    return f'<?xml version="1.0" encoding="UTF-8"?><ListBucketResult xmlns="{namespace}">{body}</ListBucketResult>'


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main(directory: str, delay: str) -> None:
    with _Server(("127.0.0.1", 0), handler(Path(directory), float(delay))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        print(server.server_port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
