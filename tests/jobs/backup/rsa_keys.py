"""Key pairs as people make them, in files."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

Files = dict[str, Path]


@lru_cache(maxsize=8)
def _pair(name: str) -> tuple[bytes, bytes]:
    key = rsa.generate_private_key(65537, 2048)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return private, key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def key_files(directory: Path, *names: str) -> tuple[Files, Files]:
    """The files of private keys, and those of public ones, by the names of the key pairs."""
    private, public = Files(), Files()
    for name in names:
        private[name], public[name] = directory / f"{name}.pem", directory / f"{name}.public.pem"
        private[name].write_bytes(_pair(name)[0])
        public[name].write_bytes(_pair(name)[1])
    return private, public
