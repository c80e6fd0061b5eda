"""Bytes are the same whichever way they come; fsspec's memory file system stands for all remote ones."""

from __future__ import annotations

import copy
import http.server
import json
import os
import pickle
import re
import threading
import zipfile
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import fsspec
import numpy as np
import pyarrow as pa
import pytest
from tests.permissions import as_another_user, forbid

import brokerless
from brokerless.cli import main
from brokerless.errors import UnreadableError
from brokerless.findings import Kind
from brokerless.log.directory import describe_partition
from brokerless.log.storage.files import LocalFile, unreadable_error
from brokerless.log.storage.location import DirectoryEntry, Location
from brokerless.log.storage.paths import (
    directory_name,
    is_remote,
    join,
    same_place,
)

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def memory(request: pytest.FixtureRequest) -> Iterator[str]:
    """An empty directory of the memory file system."""
    fs = fsspec.filesystem("memory")
    root = f"memory://{request.node.name.partition('[')[0]}-{os.getpid()}"
    fs.mkdirs(root)
    yield root
    fs.rm(root, recursive=True)


@pytest.fixture(params=["local", "file-url", "memory", "zip"])
def file_of(request: pytest.FixtureRequest, tmp_path: Path, memory: str) -> Callable[[bytes], str]:
    """Makes a file with some content and gives its path, in each kind of storage."""

    def make(content: bytes) -> str:
        (tmp_path / "a.log").write_bytes(content)
        match request.param:
            case "local":
                return str(tmp_path / "a.log")
            case "file-url":
                return f"file://{tmp_path}/a.log"
            case "zip":
                with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
                    archive.write(tmp_path / "a.log", "inside/a.log")
                return f"zip://inside/a.log::{tmp_path}/a.zip"
            case _:
                fsspec.filesystem("memory").pipe_file(f"{memory}/a.log", content)
                return f"{memory}/a.log"

    return make


def test_any_range_of_a_file_is_read(file_of: Callable[[bytes], str]) -> None:
    path = file_of(CONTENT)
    with Location(path).open() as file:
        assert (file.path, file.size) == (path, len(CONTENT))
        for position, length in [(0, 10), (3, 0), (5000, 1000), (0, len(CONTENT)), (len(CONTENT) - 3, 3)]:
            view = file.read(position, length)
            assert (view.dtype, view.ndim) == (np.uint8, 1)
            assert view.tobytes() == CONTENT[position : position + length]


def test_reading_is_short_only_at_the_end(file_of: Callable[[bytes], str]) -> None:
    with Location(file_of(CONTENT)).open() as file:
        assert file.read(len(CONTENT) - 3, 100).tobytes() == CONTENT[-3:]
        assert len(file.read(len(CONTENT), 100)) == 0
        assert len(file.read(len(CONTENT) + 5, 2**40)) == 0
        with pytest.raises(ValueError, match="position -1"):
            file.read(-1, 1)


def test_what_was_read_cannot_be_written_to(file_of: Callable[[bytes], str]) -> None:
    with Location(file_of(CONTENT)).open() as file:
        assert not file.read(0, 10).flags.writeable


def test_an_empty_file_can_be_opened(file_of: Callable[[bytes], str]) -> None:
    with Location(file_of(b"")).open() as file:
        assert (file.size, len(file.read(0, 100))) == (0, 0)


def test_a_view_outlives_its_file(file_of: Callable[[bytes], str]) -> None:
    with Location(file_of(CONTENT)).open() as file:
        view = file.read(0, 512)
    file.close()
    assert view.tobytes() == CONTENT[:512]


def test_a_closed_file_holds_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(CONTENT)
    with Location(str(tmp_path / "a")).open() as file:
        assert isinstance(file, LocalFile)
        descriptor = file.descriptor
        assert os.pread(descriptor, 100, 50) == CONTENT[50:150]
    with pytest.raises(OSError, match="descriptor"):
        os.fstat(descriptor)


LARGE = np.random.default_rng(1).bytes(1 << 20)
"""So large that memory is used again for what is read of it."""
PAGE = 4096


def test_memory_is_used_again_only_when_nobody_refers_to_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(LARGE)
    with Location(str(tmp_path / "a")).open() as file:
        first, second = file.read(0, 100_000), file.read(25 * PAGE, 100_000)
        places = {each.ctypes.data for each in (first, second)}
        del first
        assert file.read(50 * PAGE, 100_000).ctypes.data in places
        assert file.read(50 * PAGE, 90_000).ctypes.data in places  # nobody took it


@pytest.mark.parametrize("position", [0, 1, PAGE - 1, PAGE, 100_001])
@pytest.mark.parametrize("length", [70_000, len(LARGE) - 100_001])
@pytest.mark.parametrize("space", [0, 64, 5000])
def test_bytes_lie_in_pages_as_they_do_in_the_file(position: int, length: int, space: int, tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(LARGE)
    with Location(str(tmp_path / "a")).open() as file:
        room, read = file.read_with_headroom(position, length, space)
        assert (read.ctypes.data + space) % PAGE == position % PAGE
        assert read[space:].tobytes() == bytes(room[space : len(read)]) == LARGE[position : position + length]


@pytest.mark.parametrize(
    "refer",
    [
        lambda view: view,
        lambda view: view[70_000:70_010],
        lambda view: view[70_000:].data,
        lambda view: memoryview(view)[5:],
        lambda view: np.ndarray((1000,), "V61", view, strides=(1,)),
        lambda view: view[:64].view(">i8"),
        lambda view: np.frombuffer(view, np.uint8),
        lambda view: pa.py_buffer(view[1:]),
        lambda view: pa.py_buffer(memoryview(view)),
    ],
)
def test_what_refers_to_bytes_that_were_read_keeps_them(refer: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(LARGE)
    with Location(str(tmp_path / "a")).open() as file:
        kept = [refer(file.read(at, 100_000)) for at in range(0, 600_000, 100_000)]
        for at in range(0, 500_000, 50_000):
            assert file.read(at, 100_000).tobytes() == LARGE[at : at + 100_000]
        expected = [refer(np.frombuffer(LARGE[at : at + 100_000], np.uint8)) for at in range(0, 600_000, 100_000)]
        for each, wanted in zip(kept, expected, strict=True):
            assert bytes(each) == bytes(wanted)


def test_holes_are_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "a"
    with path.open("wb") as file:
        file.write(CONTENT)
        file.seek(64 << 20)
        file.write(CONTENT)
        file.truncate(1 << 40)
    with Location(str(path)).open() as opened:
        if opened.next_data(1 << 20) == 1 << 20:
            pytest.skip("this file system knows of no holes")
        assert opened.next_data(5) == 5
        assert len(CONTENT) < opened.next_data(1 << 20) <= 64 << 20
        assert opened.next_data(65 << 20) == opened.next_data(1 << 41) == 1 << 40
        end = (64 << 20) + len(CONTENT)
        assert end <= opened.data_end() < end + (1 << 16)
    os.truncate(path, 0)
    with Location(str(path)).open() as opened:
        assert (opened.next_data(0), opened.data_end()) == (0, 0)


def test_no_holes_are_known_of_a_remote_file(memory: str) -> None:
    fsspec.filesystem("memory").pipe_file(f"{memory}/a", bytes(100_000))
    with Location(f"{memory}/a").open() as file:
        assert not file.is_local
        assert (file.next_data(7), file.next_data(200_000), file.data_end()) == (7, 100_000, 100_000)


def test_nothing_is_mapped() -> None:
    """Whoever touches a page of a map behind the end of a file that was cut back is killed."""
    for path in Path(brokerless.__file__).parent.rglob("*.py"):
        assert not re.search(r"mmap|memory_map|MAP_(SHARED|PRIVATE)", path.read_text()), path


def test_a_small_file_is_read_as_a_whole_and_a_large_one_refused(file_of: Callable[[bytes], str]) -> None:
    path = file_of(CONTENT)
    assert Location(path).read(len(CONTENT)) == CONTENT
    with pytest.raises(UnreadableError, match="10240 bytes are more than the 10239"):
        Location(path).read(len(CONTENT) - 1)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("{tmp}/missing.log", "there is no such file or directory"),
        ("{tmp}", "this is a directory; give a file in it"),
        ("{tmp}/pipe", "it is not a regular file"),
        ("{tmp}/a.log/b.log", "this is not a directory"),
        ("{tmp}/nul\0.log", "embedded null"),
        ("memory://missing.log", "there is no such file or directory"),
        ("file://{tmp}/missing.log", "there is no such file or directory"),
        ("nonsense://a/b.log", "Protocol not known: nonsense"),
        ("zip://a.log::{tmp}/a.log", "File is not a zip file"),
    ],
)
def test_what_cannot_be_opened_is_one_error_that_names_the_path(tmp_path: Path, path: str, reason: str) -> None:
    (tmp_path / "a.log").write_bytes(b"")
    os.mkfifo(tmp_path / "pipe")
    path = path.format(tmp=tmp_path)
    with pytest.raises(UnreadableError, match=reason) as raised:
        Location(path).open()
    assert str(raised.value).startswith(f"{path}: ")


def test_a_file_that_may_not_be_read_names_who_may(tmp_path: Path) -> None:
    (tmp_path / "a.log").touch()
    forbid(tmp_path / "a.log")
    with (
        as_another_user(),
        pytest.raises(UnreadableError, match=r"no permission.* run this as the broker's user") as it,
    ):
        Location(str(tmp_path / "a.log")).open()
    assert it.value.kind == Kind.PERMISSION_DENIED


def test_a_file_that_grows_while_it_is_read_keeps_its_size(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(CONTENT)
    with Location(str(tmp_path / "a.log")).open() as file:
        with (tmp_path / "a.log").open("ab") as more:
            more.write(CONTENT)
        assert file.size == len(CONTENT)
        assert file.read(0, 2 * len(CONTENT)).tobytes() == CONTENT


def test_a_file_that_shrinks_while_it_is_read_is_short(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(CONTENT)
    with Location(str(tmp_path / "a.log")).open() as file:
        os.truncate(tmp_path / "a.log", 4096)
        assert file.read(0, len(CONTENT)).tobytes() == CONTENT[:4096]
        assert (file.size, file.size_now()) == (len(CONTENT), 4096)
        assert len(file.read(5000, 100)) == 0


def test_a_directory_lists_its_entries_by_name_below_the_path_that_was_given(tmp_path: Path, memory: str) -> None:
    for name in ("b.log", "a.log", "c-0/d.log"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"12345")
        fsspec.filesystem("memory").pipe_file(f"{memory}/{name}", b"12345")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    local = Location(f"{tmp_path}/.").entries()
    assert [(each.name, each.is_directory, each.size) for each in local] == [
        ("a.log", False, 5),
        ("b.log", False, 5),
        ("c-0", True, None),
        ("dangling", False, None),
    ]
    assert [each.path for each in local][:2] == [f"{tmp_path}/./a.log", f"{tmp_path}/./b.log"]
    assert local[0].modified is not None
    remote = Location(memory).entries()
    assert [(each.name, each.is_directory, each.size) for each in remote] == [
        ("a.log", False, 5),
        ("b.log", False, 5),
        ("c-0", True, None),
    ]
    assert [each.path for each in remote] == [f"{memory}/a.log", f"{memory}/b.log", f"{memory}/c-0"]
    with remote[0].location.open() as file:
        assert file.read(0, 5).tobytes() == b"12345"


def test_one_file_is_found_as_its_directory_lists_it(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_bytes(b"12345")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for directory in (str(tmp_path), f"{tmp_path}/", f"file://{tmp_path}"):
        assert [Location(directory).find_entry(each) for each in ("a.log", "dangling")] == Location(directory).entries()
        assert Location(directory).find_entry("b.log") is None


def test_a_file_that_is_renamed_while_its_directory_is_listed_has_its_new_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "00000000000000000010.log").write_bytes(b"12")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    scandir, times = os.scandir, list[str]()

    @contextmanager
    def renamed_once_listed(path: str) -> Iterator[list[os.DirEntry[str]]]:
        times.append(path)
        with scandir(path) as found:
            entries = list(found)
        if len(times) == 1:
            (tmp_path / "00000000000000000010.log").rename(tmp_path / "00000000000000000010.log.deleted")
        yield entries

    monkeypatch.setattr(os, "scandir", renamed_once_listed)
    entries = Location(str(tmp_path)).entries()
    assert [(each.name, each.size) for each in entries] == [("00000000000000000010.log.deleted", 2), ("dangling", None)]
    assert len(times) == 2


@pytest.mark.parametrize("path", ["{tmp}/missing", "{tmp}/a.log", "memory://missing", "nonsense://a"])
def test_what_is_no_directory_cannot_be_listed(tmp_path: Path, path: str) -> None:
    (tmp_path / "a.log").write_bytes(b"")
    with pytest.raises(UnreadableError):
        Location(path.format(tmp=tmp_path)).entries()


def test_whether_there_is_something(tmp_path: Path, memory: str) -> None:
    (tmp_path / "a.log").write_bytes(b"")
    fsspec.filesystem("memory").pipe_file(f"{memory}/a.log", b"")
    for root in (str(tmp_path), memory, f"file://{tmp_path}"):
        assert (Location(root).exists(), Location(root).is_directory()) == (True, True)
        assert (Location(f"{root}/a.log").exists(), Location(f"{root}/a.log").is_directory()) == (True, False)
        assert (Location(f"{root}/b.log").exists(), Location(f"{root}/b.log").is_directory()) == (False, False)


def test_patterns_match_paths_in_order(tmp_path: Path, memory: str) -> None:
    for name in ("b.log", "a.log", "c.index"):
        (tmp_path / name).write_bytes(b"")
        fsspec.filesystem("memory").pipe_file(f"{memory}/{name}", b"")
    for root in (str(tmp_path), memory):
        assert Location(f"{root}/*.log").expand() == [Location(f"{root}/a.log"), Location(f"{root}/b.log")]
        assert Location(f"{root}/[bc].*").expand() == [Location(f"{root}/b.log"), Location(f"{root}/c.index")]
        assert Location(f"{root}/missing.log").expand() == [Location(f"{root}/missing.log")]
        with pytest.raises(UnreadableError, match="no path matches this pattern"):
            Location(f"{root}/*.gone").expand()


def test_a_file_whose_name_looks_as_a_pattern_is_itself(tmp_path: Path) -> None:
    (tmp_path / "[a].log").write_bytes(b"")
    assert Location(f"{tmp_path}/[a].log").expand() == [Location(f"{tmp_path}/[a].log")]


@pytest.mark.parametrize(
    ("path", "joined"),
    [
        ("data/orders-0", "data/orders-0/a.log"),
        ("data/orders-0/", "data/orders-0/a.log"),
        (".", "./a.log"),
        ("s3://bucket/orders-0", "s3://bucket/orders-0/a.log"),
        ("s3://bucket/orders-0/", "s3://bucket/orders-0/a.log"),
        ("zip://orders-0::s3://bucket/a.zip", "zip://orders-0/a.log::s3://bucket/a.zip"),
    ],
)
def test_a_name_goes_below_a_path_as_it_was_given(path: str, joined: str) -> None:
    assert join(path, "a.log") == joined


def test_the_name_of_a_directory_is_seen_through_dots_and_slashes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "orders-0").mkdir()
    monkeypatch.chdir(tmp_path / "orders-0")
    for path in (".", "./", "../orders-0", "../orders-0/", f"{tmp_path}/orders-0//", f"file://{tmp_path}/orders-0"):
        assert directory_name(path) == "orders-0"
    assert directory_name("s3://bucket/data/orders-0/") == "orders-0"
    assert directory_name("zip://orders-0::s3://bucket/a.zip") == "orders-0"


@pytest.mark.parametrize(
    ("path", "remote"),
    [
        ("/data/a.log", False), ("a.log", False), ("./c:/a", False), ("file:///data", False), ("file:/data", False),
        ("memory://a", True), ("s3://b/a", True), ("zip://a::/b.zip", True), ("a-b::c", True),
    ],
)  # fmt: skip
def test_urls_are_remote_but_not_those_of_this_machine(path: str, remote: bool) -> None:
    assert is_remote(path) == remote


@pytest.mark.parametrize(
    "forms",
    [
        (
            "/lake/t/a.parquet",
            "file:/lake/t/a.parquet",
            "file:///lake/t/a.parquet",
            "file://localhost/lake/t/a.parquet",
        ),
        ("s3://lake/t/a", "s3a://lake/t/a", "s3n://lake/t/a"),
        ("abfs://lake/t/a", "abfss://lake@own.dfs.core.windows.net/t/a", "wasbs://lake@own.blob.core.windows.net/t/a"),
        ("oss://lake/t/a", "oss://lake.oss-eu-central-1.aliyuncs.com/t/a"),
    ],
)
def test_all_forms_in_which_engines_write_a_place_are_one(forms: tuple[str, ...]) -> None:
    assert {same_place(each) for each in forms} == {forms[0]}
    assert same_place(forms[-1].replace("/a", "/b")) != forms[0]
    assert same_place("s3://lake/a@b.c/d") == "s3://lake/a@b.c/d"  # a key may have any character


SECRET = {"key": "me", "secret": "hunter2"}


def test_what_is_listed_and_joined_has_the_options_of_its_directory(memory: str) -> None:
    fsspec.filesystem("memory").pipe_file(f"{memory}/a.log", b"12345")
    there = Location(memory, {"asynchronous": False})
    (entry,) = there.entries()
    assert entry.location == there / "a.log" == (there / "a.log").at(f"{memory}/a.log")
    assert entry.location.parent == entry.location.containing == there
    assert (there / "*.log").expand() == [there / "a.log"]


def test_locations_are_equal_by_path_and_options() -> None:
    one = Location("s3://bucket/a", SECRET)
    assert one == Location("s3://bucket/a", dict(SECRET)) != Location("s3://bucket/a")
    assert Location("a") == Location("a", {}) != Location("b")
    assert len({one, Location("s3://bucket/a", dict(SECRET)), Location("s3://bucket/a")}) == 2
    assert Location.of(one) is one
    assert Location.of(Path("a"), SECRET) == Location("a", SECRET)


def test_a_location_cannot_be_changed_and_is_pickled_with_its_options() -> None:
    one = Location("s3://bucket/a", SECRET)
    with pytest.raises(AttributeError, match="cannot be changed"):
        one.path = "b"
    assert pickle.loads(pickle.dumps(one)) == copy.deepcopy(one) == one


def test_options_are_in_no_text_of_a_location() -> None:
    entry = DirectoryEntry("a", Location("s3://bucket/a", SECRET), False)
    partition = describe_partition(Location("s3://bucket/t-0", SECRET), [entry])
    texts = [str(entry.location), repr(entry.location), repr(entry), repr(partition), f"{entry.location}"]
    texts += [json.dumps(asdict(each), default=str) for each in (entry, partition)]
    assert not [text for text in texts if "hunter2" in text]
    with pytest.raises(TypeError):
        json.dumps(entry.location)


@pytest.mark.parametrize(
    ("url", "path", "options"),
    [
        ("s3://AK:se/c+ret@bucket/a/b@c", "s3://bucket/a/b@c", {"key": "AK", "secret": "se/c+ret"}),
        ("s3://AK:a%2Fb@bucket", "s3://bucket", {"key": "AK", "secret": "a/b"}),
        ("https://u:p%40@h:8/x", "https://h:8/x", {"headers": {"Authorization": "Basic dTpwQA=="}}),
        ("sftp://u:p@h/x", "sftp://h/x", {"username": "u", "password": "p"}),
        ("zip://a::sftp://u:p@h/x.zip", "zip://a::sftp://h/x.zip", {"sftp": {"username": "u", "password": "p"}}),
        (
            "https://h/x.log?X-Amz-Signature=a%2Bb&v=1",
            "https://h/x.log",
            {"params": {"X-Amz-Signature": "a+b", "v": "1"}},
        ),
        ("zip://a::https://h/x.zip?sig=a", "zip://a::https://h/x.zip", {"https": {"params": {"sig": "a"}}}),
        ("abfs://c@account/x?sv=1&sig=a", "abfs://c@account/x", {"sas_token": "sv=1&sig=a"}),
        ("https://h/x?version=1", "https://h/x?version=1", None),
        ("sftp://u@h/x", "sftp://u@h/x", None),
        ("s3://bucket/a:b@c", "s3://bucket/a:b@c", None),
        ("s3://arn:aws:s3:eu:1:accesspoint/x/k@1", "s3://arn:aws:s3:eu:1:accesspoint/x/k@1", None),
        ("github://org:repo@main/x", "github://org:repo@main/x", None),
        ("abfs://c@account.dfs.core.windows.net/x", "abfs://c@account.dfs.core.windows.net/x", None),
        ("/var/lib/a:b@c", "/var/lib/a:b@c", None),
        ("file:///a:b@c", "file:///a:b@c", None),
    ],
)
def test_a_key_or_password_of_a_url_is_an_option_that_is_not_shown(
    url: str, path: str, options: dict[str, Any] | None
) -> None:  # fmt: skip
    location = Location(url)
    assert (location.path, location.options, repr(location)) == (path, options, f"Location({path!r})")
    assert (location / "inner").options == options
    assert pickle.loads(pickle.dumps(location)) == location
    given = Location(url, {"username": "other", "key": "other"}).options or {}
    assert (given["username"], given["key"]) == ("other", "other")  # what is said by name counts


@contextmanager
def web_server(data: bytes | None) -> Iterator[tuple[str, list[tuple[str, str | None]]]]:
    """A server that answers each request with ``data``, or that there is nothing; its place (``127.0.0.1:PORT``), and
    the path and authorization of the requests."""
    seen: list[tuple[str, str | None]] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            seen.append((self.path, self.headers["Authorization"]))
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(data or b"")

        do_GET = do_HEAD  # noqa: N815 - as the module calls it

        def log_message(self, format: str, *args: Any) -> None: ...

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", seen
        finally:
            server.shutdown()
            thread.join()


def test_a_server_gets_the_signature_that_nothing_shows(capfd: pytest.CaptureFixture[str]) -> None:
    with web_server(next(Path("demo/data").glob("users-0/*.log")).read_bytes()) as (place, seen):
        url = f"http://{place}/{0:020}.log"
        assert main(["cat", f"{url}?X-Amz-Signature=hidd%2Ben&X-Amz-Date=today", "--json"]) == 0
        assert main(["export", "demo/data", "--topic", "users", "--to", f"{url}?sig=hidden"]) > 0
    printed = capfd.readouterr()
    assert "hidd" not in printed.out + printed.err
    assert printed.out.count("\n") > 0
    queries = {path.partition("?")[2] for path, _ in seen}
    assert queries == {"X-Amz-Signature=hidd%2Ben&X-Amz-Date=today", "sig=hidden"}


def test_a_server_gets_the_password_that_nothing_shows(capfd: pytest.CaptureFixture[str]) -> None:
    with web_server(None) as (place, seen):
        for arguments in (["ls"], ["verify"], ["export", "demo/data", "--topic", "users", "--to"]):
            assert main([*arguments, f"http://someone:hidden@{place}/logs"]) > 0
    printed = capfd.readouterr()
    assert "hidden" not in printed.out + printed.err
    assert "127.0.0.1" in printed.err
    assert {authorization for _, authorization in seen} == {"Basic " + b64encode(b"someone:hidden").decode()}


@pytest.mark.parametrize(
    "command",
    [["restore", "demo/data", "--to"], ["ls", "--nothing"], ["cat", "demo/data", "--from"], ["cluster"]],
    ids=lambda each: each[0],
)
def test_a_key_is_not_shown_where_no_url_is_expected(command: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert main([*command, "s3://SOMEBODY:hidden/part@bucket/x"]) > 0
    printed = capfd.readouterr()
    assert "hidden" not in printed.out + printed.err
    assert printed.err


def test_an_error_of_a_library_is_one_line() -> None:
    searched = ImportError("cannot load libx\nsearched in /a\nsearched in /b")
    assert str(unreadable_error("s3://bucket/log", searched)) == "s3://bucket/log: cannot load libx"
    assert str(unreadable_error("s3://bucket/log", ImportError())) == "s3://bucket/log: ImportError"
