"""Input files: what is read from a pipe."""

from __future__ import annotations

import fcntl
import io
import os
import resource
import sys

import pytest

from brokerless.interchange.input_files import STDIN, InputFiles


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a process may be allowed fewer descriptors than that")
def test_a_pipe_is_read_in_a_process_with_a_thousand_open_files() -> None:
    most, limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(2_000, limit), limit))
    try:
        low, end = os.pipe()
        high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, 1_024)
        os.close(low)
        os.write(end, b'{"value": "a"}\n')
        os.close(end)
        with io.FileIO(high) as raw:
            read = list(InputFiles([STDIN], stdin=io.BufferedReader(raw)))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, limit))
    assert [row["value"] for batch in read for row in batch.to_pylist()] == [b"a"]
