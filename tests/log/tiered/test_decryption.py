from __future__ import annotations

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat
from tests.log.tiered import golden, key_pairs

from brokerless import UsageError
from brokerless.log.tiered.decryption import DecryptionError, KeyPairs, check_private_key, decryptor
from brokerless.log.tiered.manifest import Encryption, Manifest, parse_manifest


def keys() -> dict[str, bytes]:
    return {name: file.read_bytes() for name, file in key_pairs().items()}


def a_manifest() -> tuple[Manifest, bytes]:
    """And the first chunk of its segment, as it is stored."""
    path = min((golden() / "encrypted" / "bucket").glob("**/*.rsm-manifest"))
    found = parse_manifest(path.read_bytes())
    return found, path.with_suffix(".log").read_bytes()[slice(*found.chunks.range(0, 0))]


def test_what_the_plugin_encrypted() -> None:
    found, chunk = a_manifest()
    assert found.encryption is not None
    data = decryptor(found.encryption, keys())(chunk)
    assert len(data) == found.chunks.chunk_size == 4096
    assert int.from_bytes(data[:8], "big") == found.start_offset
    assert data[16] == 2  # the magic of its first batch


def test_what_is_not_what_was_encrypted() -> None:
    found, chunk = a_manifest()
    assert found.encryption is not None
    decrypt = decryptor(found.encryption, keys())
    for wrong in (chunk[:-1], bytes(len(chunk)), chunk[:27], b"", chunk[1:] + b"\0"):
        with pytest.raises(DecryptionError):
            decrypt(wrong)
    other = Encryption(found.encryption.key_id, found.encryption.data_key, b"other")
    with pytest.raises(DecryptionError, match="its tag is wrong"):
        decryptor(other, keys())(chunk)


@pytest.mark.parametrize("change", [lambda key: key[:-1], lambda key: b"\xff" * len(key), lambda key: bytes(len(key))])
def test_a_wrong_data_key(change: object) -> None:
    found, _ = a_manifest()
    assert found.encryption is not None
    wrong = Encryption("key1", change(found.encryption.data_key), found.encryption.aad)  # type: ignore[operator]
    with pytest.raises(DecryptionError, match="key pair key1"):
        decryptor(wrong, keys())


def test_keys() -> None:
    with pytest.raises(DecryptionError, match=r"key pair key1, which was not given \(--key-pair key1=FILE\)"):
        decryptor(Encryption("key1", b"", b""), {})
    rsa_key = rsa.generate_private_key(65537, 2048)
    ec_key = ec.generate_private_key(ec.SECP256R1())
    form = Encoding.PEM, PrivateFormat.PKCS8
    for pem, reason in (
        (b"", "no private key in PEM"),
        (json.dumps({}).encode(), "no private key in PEM"),
        (rsa_key.private_bytes(*form, BestAvailableEncryption(b"secret")), "needs a password"),
        (ec_key.private_bytes(*form, NoEncryption()), "no RSA key"),
    ):
        with pytest.raises(UsageError, match=f"key pair k: .*{reason}") as error:
            check_private_key("k", pem)
        assert pem.decode() == "" or pem.decode() not in str(error.value)
    check_private_key("k", rsa_key.private_bytes(*form, NoEncryption()))
    assert repr(KeyPairs({"a": b"secret"})) == "KeyPairs(a)"
    assert KeyPairs({"a": b"1"}) != KeyPairs({"a": b"2"})
