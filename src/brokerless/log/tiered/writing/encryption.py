"""Encrypts what Aiven's plugin decrypts: whoever writes has a public key, and cannot read what was written.

Source: ``RsaEncryptionProvider`` and ``AesEncryptionProvider`` of Aiven's tiered-storage-for-apache-kafka; RFC 8017,
7.1.1. See :mod:`brokerless.log.tiered.decryption`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from brokerless.errors import UsageError, missing_libraries
from brokerless.log.tiered.decryption import HASH, KEY_SIZE, mask, xor
from brokerless.log.tiered.manifest import IV_SIZE, Encryption

_AAD_SIZE = 32
_SMALLEST_MODULUS = 2 * HASH().digest_size + 2 + KEY_SIZE
"""Bytes that OAEP needs for a data key."""


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public RSA key (PEM), and what manifests call its pair."""

    key_id: str
    pem: bytes = field(repr=False)

    def __post_init__(self) -> None:
        """Raises :class:`UsageError` for what is no public RSA key, and for a name that a manifest cannot have."""
        if not self.key_id.isprintable() or not 0 < len(self.key_id) <= 200 or ":" in self.key_id:
            raise UsageError(f"key pair {self.key_id!r}: its name has 1 to 200 characters, and no colon")
        modulus, _ = _numbers(self.pem)
        if (modulus.bit_length() + 7) // 8 < _SMALLEST_MODULUS:
            raise UsageError(f"key pair {self.key_id}: a key of {modulus.bit_length()} bits is too short; take 3072")


class Encryptor:
    """Encrypts the chunks and indexes of one segment by a data key of its own: an IV, what was encrypted, and a tag
    each. ``encryption``: what its manifest has of it."""

    def __init__(self, public_key: PublicKey) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key, aad = os.urandom(KEY_SIZE), os.urandom(_AAD_SIZE)
        self.encryption = Encryption(public_key.key_id, _wrap(key, public_key.pem), aad)
        self._cipher: Any = AESGCM(key)

    def __call__(self, data: bytes | memoryview) -> bytes:
        iv = os.urandom(IV_SIZE)
        return iv + self._cipher.encrypt(iv, data, self.encryption.aad)


@lru_cache(maxsize=64)
def _numbers(pem: bytes) -> tuple[int, int]:
    """A public key's modulus and exponent. Raises :class:`UsageError`."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    except ImportError as error:
        raise missing_libraries("writing encrypted segments", "tiered") from error
    try:
        key = load_pem_public_key(pem)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        raise UsageError("this is no public key in PEM; openssl pkey -pubout makes one of a private key") from None
    if not isinstance(key, RSAPublicKey):
        raise UsageError("this is no RSA key")
    numbers = key.public_numbers()
    return numbers.n, numbers.e


def _wrap(key: bytes, pem: bytes) -> bytes:
    modulus, exponent = _numbers(pem)
    size, length = (modulus.bit_length() + 7) // 8, HASH().digest_size
    block = HASH(b"").digest() + bytes(size - len(key) - 2 * length - 2) + b"\1" + key
    seed = os.urandom(length)
    masked = xor(block, mask(seed, len(block)))
    encoded = b"\0" + xor(seed, mask(masked, length)) + masked
    return pow(int.from_bytes(encoded, "big"), exponent, modulus).to_bytes(size, "big")
