"""Ed25519 signatures of files of our own: the 64 bytes of a signature are in a file of their own (RFC 8032).

``openssl pkeyutl -verify -rawin`` checks them, too.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from brokerless.errors import UsageError, missing_libraries
from brokerless.log.storage.guarded_files import read_own
from brokerless.log.storage.location import Location

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

SIGNATURE_BYTES = 64
SIGNATURE_LIMIT = 1 << 16
"""Bytes of a file with a signature, or a key, that are read."""


def load_private_key(path: str) -> Ed25519PrivateKey:
    """Return an Ed25519 key in PEM without a password, as ``openssl genpkey -algorithm ed25519`` writes it. Raises
    :class:`UsageError` for another one or without the library, and UnreadableError."""
    serialization, ed25519 = _cryptography()
    data = read_own(Location(path), SIGNATURE_LIMIT)
    try:
        key = serialization.load_pem_private_key(data, None)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path}: this is no private key in PEM without a password ({error})") from error
    if not isinstance(key, ed25519.Ed25519PrivateKey):
        raise UsageError(f"{path}: this key is not Ed25519; make one with openssl genpkey -algorithm ed25519")
    return key


def load_public_key(path: str) -> Ed25519PublicKey:
    """Return the public key of a PEM file (also that of a private one). Raises as :func:`load_private_key`."""
    serialization, ed25519 = _cryptography()
    data = read_own(Location(path), SIGNATURE_LIMIT)
    if b"PRIVATE KEY" in data:
        return load_private_key(path).public_key()
    try:
        key = serialization.load_pem_public_key(data)
    except ValueError as error:
        raise UsageError(f"{path}: this is no public key in PEM ({error})") from error
    if not isinstance(key, ed25519.Ed25519PublicKey):
        raise UsageError(f"{path}: this key is not Ed25519")
    return key


def public_bytes(key: Ed25519PublicKey) -> bytes:
    """Return the 32 bytes of a public key."""
    return key.public_bytes_raw()


def is_signed_by(key: bytes, data: bytes, signature: bytes | None) -> bool:
    """Return whether a signature of ``data`` is there, and that of the key with these 32 bytes. Raises UsageError
    without the library."""
    _, ed25519 = _cryptography()
    from cryptography.exceptions import InvalidSignature

    try:
        ed25519.Ed25519PublicKey.from_public_bytes(key).verify(signature or b"", data)
    except (InvalidSignature, ValueError):
        return False
    return True


def fingerprint(key: bytes) -> str:
    """Return a public key, short enough to compare: base64 of its 32 bytes."""
    return base64.b64encode(key).decode()


def _cryptography() -> tuple[Any, Any]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError as error:
        raise missing_libraries("signatures need the library cryptography", "erase") from error
    return serialization, ed25519
