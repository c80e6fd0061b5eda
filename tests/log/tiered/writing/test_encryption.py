"""What is encrypted with a public key is decrypted with the private one.

The plugin's own objects are the oracle of that side (``test_decryption``), and OpenSSL of the padding.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.log.tiered import key_pairs
from tests.log.upload.test_remote_log import public_key

from brokerless.errors import UsageError
from brokerless.log.tiered.decryption import DecryptionError, KeyPairs, decryptor
from brokerless.log.tiered.writing.encryption import Encryptor, PublicKey, new_data_key

KEYS = KeyPairs({name: path.read_bytes() for name, path in key_pairs().items()})


def test_a_private_key_decrypts_what_its_public_key_encrypted() -> None:
    encrypt = Encryptor(new_data_key([public_key("key1")]))
    stored = encrypt(b"a chunk")
    assert decryptor(encrypt.encryption, KEYS)(stored) == b"a chunk"
    assert len(stored) == len(b"a chunk") + 28
    assert encrypt(b"a chunk") != stored, "an IV is never used again"


def test_segments_have_keys_of_their_own_and_another_pair_decrypts_nothing() -> None:
    one, other = Encryptor(new_data_key([public_key("key1")])), Encryptor(new_data_key([public_key("key1")]))
    with pytest.raises(DecryptionError):
        decryptor(other.encryption, KEYS)(one(b"a chunk"))
    with pytest.raises(DecryptionError, match="does not fit"):
        decryptor(one.encryption, KeyPairs({"key1": KEYS["key2"]}))


def test_openssl_takes_the_padding_away(tmp_path: Path) -> None:
    encryption = Encryptor(new_data_key([public_key("key2")])).encryption
    (tmp_path / "key").write_bytes(KEYS["key2"])
    (tmp_path / "wrapped").write_bytes(encryption.data_key)
    command = ["openssl", "pkeyutl", "-decrypt", "-inkey", tmp_path / "key", "-in", tmp_path / "wrapped"]
    for each in ("rsa_padding_mode:oaep", "rsa_oaep_md:sha3-512", "rsa_mgf1_md:sha3-512"):
        command += ["-pkeyopt", each]
    assert len(subprocess.run(command, capture_output=True, check=True).stdout) == 32


@pytest.mark.parametrize("pem", [b"", b"no key", KEYS["key1"]])
def test_what_is_no_public_key_is_refused_without_its_text(pem: bytes) -> None:
    with pytest.raises(UsageError, match="no public key in PEM"):
        PublicKey("key1", pem)


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "a" * 201])
def test_a_name_that_no_manifest_can_have_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="its name has"):
        PublicKey(name, public_key("key1").pem)
