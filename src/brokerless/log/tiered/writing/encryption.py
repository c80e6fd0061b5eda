"""Encrypts what Aiven's plugin decrypts: whoever writes has a public key, and cannot read what was written.

Source: ``RsaEncryptionProvider`` and ``AesEncryptionProvider`` of Aiven's tiered-storage-for-apache-kafka; RFC 8017,
7.1.1. See :mod:`brokerless.log.tiered.decryption`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from brokerless.errors import UsageError, missing_libraries
from brokerless.log.tiered.decryption import HASH, KEY_SIZE, mask, read_key_file, xor
from brokerless.log.tiered.manifest import IV_SIZE, Encryption, encryption_members

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
        try:
            modulus, _ = _numbers(self.pem)
        except UsageError as error:
            raise UsageError(f"key pair {self.key_id}: {error}") from None
        if (modulus.bit_length() + 7) // 8 < _SMALLEST_MODULUS:
            raise UsageError(f"key pair {self.key_id}: a key of {modulus.bit_length()} bits is too short; take 3072")


def load_public_keys(files: Mapping[str, str | os.PathLike[str]]) -> tuple[PublicKey, ...]:
    """Read public keys from files, by the names of their key pairs. Raises :class:`UsageError` for what is none, and
    :class:`UnreadableError` for a file that is not there."""
    if not isinstance(files, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise UsageError("public_keys: give files by the names of their key pairs, such as {'ops': 'ops.public.pem'}")
    found = tuple(_load(name, file) for name, file in files.items())
    refuse_same_keys(found)
    return found


def refuse_same_keys(keys: Sequence[PublicKey]) -> None:
    """Raise :class:`UsageError` for one key by two names: whoever loses its private key has lost both."""
    seen: dict[tuple[int, int], str] = {}
    for each in keys:
        first = seen.setdefault(_numbers(each.pem), each.key_id)
        if first != each.key_id:
            raise UsageError(f"key pairs {first} and {each.key_id} have the same key; give two keys")


def _load(name: str, file: object) -> PublicKey:
    pem = read_key_file(name, file, "public")
    if b"PRIVATE KEY" in pem:
        text = "this file has the private key, which whoever writes a backup is not to have"
        raise UsageError(f"key pair {name}: {text}; openssl pkey -in FILE -pubout writes the public one")
    return PublicKey(name, pem)


@dataclass(frozen=True, slots=True)
class DataKey:
    """A key for AES-256, with which segments are encrypted: random IVs of 12 bytes are safe for 2^32 chunks."""

    key: bytes = field(repr=False)
    wrapped: Mapping[str, bytes] = field(repr=False)
    """The key, encrypted for each key pair, by their names; manifests have the first one."""

    @property
    def key_id(self) -> str:
        return next(iter(self.wrapped))


def new_data_key(public_keys: Sequence[PublicKey]) -> DataKey:
    """Return a random key, encrypted for each of some key pairs."""
    key = os.urandom(KEY_SIZE)
    return DataKey(key, {each.key_id: wrap(key, each) for each in public_keys})


def wrap(key: bytes, public_key: PublicKey) -> bytes:
    """Encrypt a data key for a key pair."""
    return _wrap(key, public_key.pem)


class Encryptor:
    """Encrypts the chunks and indexes of one segment: an IV, what was encrypted, and a tag each. ``encryption``: what
    its manifest has of it."""

    def __init__(self, key: DataKey) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.encryption = Encryption(key.key_id, key.wrapped[key.key_id], os.urandom(_AAD_SIZE))
        self._cipher: Any = AESGCM(key.key)

    def __call__(self, data: bytes | memoryview) -> bytes:
        iv = os.urandom(IV_SIZE)
        return iv + self._cipher.encrypt(iv, data, self.encryption.aad)


def encrypt_file(data: bytes, key: DataKey) -> bytes:
    """Encrypt a file that is no segment: a line of JSON, as a manifest has it, and what was encrypted."""
    encrypt = Encryptor(key)
    return json.dumps(encryption_members(encrypt.encryption)).encode() + b"\n" + encrypt(data)


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
