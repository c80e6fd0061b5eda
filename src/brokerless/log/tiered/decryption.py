"""Decrypts what Aiven's plugin encrypted: a data key by RSA-OAEP, chunks and indexes by AES-256-GCM.

Source: ``RsaEncryptionProvider`` (``RSA/NONE/OAEPWithSHA3-512AndMGF1Padding``) and ``AesEncryptionProvider`` of Aiven's
tiered-storage-for-apache-kafka. ``cryptography`` refuses OAEP with SHA3-512, so that the padding is undone here
(RFC 8017, 7.1.2).
"""

from __future__ import annotations

import hashlib
import hmac
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import Any, NoReturn

from brokerless.errors import UsageError, missing_libraries
from brokerless.log.storage.location import Location
from brokerless.log.tiered.manifest import ENCRYPTED, IV_SIZE, Encryption, parse_encryption
from brokerless.values import WrongJsonError

HASH = hashlib.sha3_512
"""Of the label and of MGF1."""
_LIMIT = 1 << 16
"""Bytes of a file with a key."""
KEY_SIZE = 32
"""Bytes of a data key."""
_OTHER = "it is not the one that the data key was encrypted with"


class DecryptionError(Exception):
    """Why something cannot be decrypted; the message has nothing of a key."""


class KeyPairs(Mapping[str, bytes]):
    """Private keys (PEM) by the names of their key pairs. No text of it has more than the names."""

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        self._keys = dict(keys)

    def __getitem__(self, name: str) -> bytes:
        return self._keys[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def __repr__(self) -> str:
        return f"KeyPairs({', '.join(self._keys)})"

    def readable(self, encryption: Encryption) -> Encryption:
        """Return a data key as one of these key pairs can decrypt it, if another place has it so."""
        return encryption


class BackupKeys(KeyPairs):
    """The same for a backup, which has data keys for more than one key pair. ``load`` returns them: what the data key
    of a manifest is called (:func:`data_key_id`), and it for each key pair."""

    def __init__(self, keys: Mapping[str, bytes], load: Callable[[], Mapping[str, Mapping[str, bytes]]]) -> None:
        super().__init__(keys)
        self._load = load
        self._others: Mapping[str, Mapping[str, bytes]] | None = None

    def readable(self, encryption: Encryption) -> Encryption:
        if encryption.key_id in self or not self:
            return encryption
        if self._others is None:
            self._others = self._load()
        known = self._others.get(data_key_id(encryption.data_key), {})
        name = next((each for each in self if each in known), None)
        return encryption if name is None else replace(encryption, key_id=name, data_key=known[name])


def data_key_id(wrapped: bytes) -> str:
    """Return what a data key is called, as it is encrypted in manifests."""
    return hashlib.sha256(wrapped).hexdigest()


class Decryptor:
    """Decrypts the chunks and indexes of a segment by its data key: an IV, what was encrypted, and a tag each."""

    def __init__(self, key: bytes, aad: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher: Any = AESGCM(key)
        self._aad = aad
        self._is_direct = hasattr(self._cipher, "decrypt_into")  # since 47 of cryptography

    def __call__(self, data: bytes | memoryview) -> bytes:
        """Return what was encrypted. Raises :class:`DecryptionError`."""
        return self._decrypted(self._cipher.decrypt, data)

    def into(self, data: bytes | memoryview, memory: memoryview) -> None:
        """Decrypt into memory that has its size. Raises :class:`DecryptionError`."""
        if self._is_direct:
            self._decrypted(self._cipher.decrypt_into, data, memory)
        else:
            memory[:] = self(data)

    def _decrypted(self, decrypt: Callable[..., Any], data: bytes | memoryview, *memory: memoryview) -> Any:
        from cryptography.exceptions import InvalidTag

        if len(data) < ENCRYPTED:
            raise DecryptionError("it is shorter than what encryption adds")
        try:
            return decrypt(data[:IV_SIZE], data[IV_SIZE:], self._aad, *memory)
        except InvalidTag:
            raise DecryptionError("it is not what was encrypted: its tag is wrong") from None


def read_key_file(name: str, file: object, which: str) -> bytes:
    """Return the content of a file with a key. ``which``: ``private`` or ``public``. Raises :class:`UsageError` for a
    key in place of a path, which is in no message, and :class:`UnreadableError` for a file that is not there."""
    if not isinstance(file, str | os.PathLike) or "-----" in str(file):
        raise UsageError(f"key pair {name}: give the path of a file with its {which} key, and not the key")
    return Location(os.fspath(file)).read(_LIMIT)


def check_private_key(name: str, pem: bytes) -> None:
    """Raises :class:`UsageError` for what is no private RSA key in PEM without a password."""
    try:
        _numbers(pem)
    except DecryptionError as error:
        raise UsageError(f"key pair {name}: {error}") from None


def decrypt_file(data: bytes, keys: Mapping[str, bytes]) -> bytes:
    """Decrypt a file that is no segment. Raises :class:`DecryptionError`."""
    head, line, encrypted = data.partition(b"\n")
    try:
        encryption = parse_encryption(head)
    except WrongJsonError as error:
        raise DecryptionError(f"it does not begin with how it is encrypted: {error}") from error
    if not line:
        raise DecryptionError("it ends before what was encrypted")
    return decryptor(encryption, keys)(encrypted)


def decryptor(encryption: Encryption, keys: Mapping[str, bytes]) -> Decryptor:
    """Return what decrypts a chunk, or an index, of a segment. Raises :class:`DecryptionError` without its key."""
    return Decryptor(unwrap(encryption, keys), encryption.aad)


def unwrap(encryption: Encryption, keys: Mapping[str, bytes]) -> bytes:
    """Return the data key of a segment. Raises :class:`DecryptionError` without its key pair."""
    encryption = keys.readable(encryption) if isinstance(keys, KeyPairs) else encryption
    if encryption.key_id not in keys:
        text = f"it is encrypted with key pair {encryption.key_id}, which was not given (--key-pair"
        raise DecryptionError(f"{text} {encryption.key_id}=FILE)")
    try:
        return _unwrap(encryption.data_key, keys[encryption.key_id])
    except DecryptionError as error:
        raise DecryptionError(f"key pair {encryption.key_id} does not fit, as {error}") from None


@lru_cache(maxsize=64)
def _numbers(pem: bytes) -> tuple[int, int, int, int, int]:
    """A private key's primes p and q, its exponents modulo p - 1 and q - 1, and the inverse of q modulo p."""
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key
    except ImportError as error:
        raise missing_libraries("reading encrypted segments", "tiered") from error
    try:
        key = load_pem_private_key(pem, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        _refuse("this is no private key in PEM, or it needs a password")
    if not isinstance(key, RSAPrivateKey):
        _refuse("this is no RSA key")
    numbers = key.private_numbers()
    return numbers.p, numbers.q, numbers.dmp1, numbers.dmq1, numbers.iqmp


def _refuse(text: str) -> NoReturn:
    raise DecryptionError(text) from None


@lru_cache(maxsize=1 << 12)
def _unwrap(wrapped: bytes, pem: bytes) -> bytes:
    p, q, exponent_p, exponent_q, inverse = _numbers(pem)
    modulus = p * q
    size = (modulus.bit_length() + 7) // 8
    number = int.from_bytes(wrapped, "big")
    if len(wrapped) != size:
        raise DecryptionError(f"the data key has {len(wrapped)} bytes; this key pair makes {size}")
    if number >= modulus:
        raise DecryptionError(_OTHER)
    of_p, of_q = pow(number, exponent_p, p), pow(number, exponent_q, q)
    return _without_padding((of_q + q * ((of_p - of_q) * inverse % p)).to_bytes(size, "big"))


def _without_padding(encoded: bytes) -> bytes:
    length = HASH().digest_size
    seed = xor(encoded[1 : 1 + length], mask(encoded[1 + length :], length))
    block = xor(encoded[1 + length :], mask(seed, len(encoded) - 1 - length))
    is_right = hmac.compare_digest(block[:length], HASH(b"").digest()) and encoded[0] == 0
    key = block[length:].lstrip(b"\0")
    if not is_right or key[:1] != b"\1" or len(key) != 1 + KEY_SIZE:
        raise DecryptionError(_OTHER)
    return key[1:]


def mask(seed: bytes, length: int) -> bytes:
    """Return the mask that MGF1 makes of a seed."""
    blocks = range(-(-length // HASH().digest_size))
    return b"".join(HASH(seed + number.to_bytes(4, "big")).digest() for number in blocks)[:length]


def xor(one: bytes, other: bytes) -> bytes:
    """Return the bits in which two texts of one length differ."""
    return bytes(left ^ right for left, right in zip(one, other, strict=True))
