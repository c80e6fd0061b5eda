"""A key pair that signs snapshots and evidence, as people make it."""

from __future__ import annotations

import subprocess
from pathlib import Path


def ed25519_pair(directory: Path, name: str = "sign") -> tuple[Path, Path]:
    """The files of a private key and of its public one."""
    private, public = directory / f"{name}.pem", directory / f"{name}.public.pem"
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", private], check=True)
    subprocess.run(["openssl", "pkey", "-in", private, "-pubout", "-out", public], check=True)
    return private, public
