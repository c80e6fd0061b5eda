"""Logins by SCRAM (RFC 5802, KIP-84): with users of a file, or those of the dead cluster, whose old passwords work.

The metadata of a cluster has no passwords, but what a server needs to check one. Sources: ``ScramSaslServer``,
``ScramFormatter`` and ``ScramMessages`` (4.4.0). Left out: PLAIN, OAUTHBEARER, GSSAPI, delegation tokens, channel
binding.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64Error
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from brokerless.errors import UnreadableError, UsageError
from brokerless.log.storage.location import Location

if TYPE_CHECKING:
    from brokerless.internals.metadata.cluster import Cluster

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Of the mechanisms, by name."""
ITERATIONS = 4096
_LARGEST_FILE = 16 << 20
_CLIENT_FIRST = re.compile(rb"(n,(?:a=[^,]*)?,)(?:m=[^,]*,)?(n=([^,]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)", re.DOTALL)
_CLIENT_FINAL = re.compile(
    rb"(c=([A-Za-z0-9+/=]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,[^p].*)?),p=([A-Za-z0-9+/=]+)", re.DOTALL
)


class LoginError(Exception):
    """A login that fails; the text is for the client, and says no more than that."""


@dataclass(frozen=True, slots=True)
class Credential:
    """What a server knows of a password."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    @classmethod
    def of(cls, password: str, mechanism: str) -> Credential:
        """The credential of a password, with a random salt."""
        name, salt = HASHES[mechanism], os.urandom(16)
        salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, ITERATIONS)
        client_key = hmac.digest(salted, b"Client Key", name)
        return cls(salt, hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name), ITERATIONS)


Users = Mapping[tuple[str, str], Credential]
"""By mechanism and name."""


def read_users(path: str) -> Users:
    """Read a file with a ``name:password`` a line. Raises :class:`UsageError`."""
    try:
        text = Location(path).read(_LARGEST_FILE).decode()
    except UnreadableError as error:
        raise UsageError(str(error)) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8") from error
    users: dict[tuple[str, str], Credential] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, password = line.partition(":")
        if not colon or not name or not password or (next(iter(HASHES)), name) in users:
            raise UsageError(f"{path}, line {number}: a user is name:password, and each name comes once")
        for mechanism in HASHES:
            users[mechanism, name] = Credential.of(password, mechanism)
    if not users:
        raise UsageError(f"{path} has no users")
    return users


def users_of_cluster(cluster: Cluster | None) -> Users:
    """Return the users of a cluster. Raises :class:`UsageError` where it has none."""
    from brokerless.internals.metadata.cluster import SCRAM_MECHANISMS

    rows = {} if cluster is None else cluster.users
    users = {
        (SCRAM_MECHANISMS[mechanism], name): Credential(
            b64decode(row["salt"]), b64decode(row["storedKey"]), b64decode(row["serverKey"]), row["iterations"]
        )
        for (name, mechanism), row in rows.items()
        if mechanism in SCRAM_MECHANISMS
    }
    if not users:
        raise UsageError("the cluster's metadata has no users with a password of SCRAM, or is not on these disks")
    return users


@dataclass(slots=True)
class Login:
    """The login of one connection. ``user``: who has logged in, None before that."""

    users: Users
    user: str | None = None
    _mechanism: str | None = None
    _name: str = ""
    _credential: Credential | None = None
    _so_far: bytes = b""
    _header: bytes = b""
    _nonce: bytes = field(default_factory=lambda: b64encode(os.urandom(24)))

    @property
    def mechanisms(self) -> list[str]:
        """The names of the mechanisms that have users."""
        return sorted({mechanism for mechanism, _ in self.users})

    def begin(self, mechanism: str) -> bool:
        """Choose a mechanism; return whether it is known."""
        if mechanism not in self.mechanisms:
            return False
        self._mechanism, self._credential = mechanism, None
        return True

    def step(self, message: bytes) -> bytes:
        """Answer a message of the client. Raises :class:`LoginError`."""
        if self._mechanism is None or self.user is not None:
            raise LoginError("no login has begun")
        if self._credential is None:
            return self._first(message, self._mechanism)
        return self._final(message, self._mechanism, self._credential)

    def _first(self, message: bytes, mechanism: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(message)
        if match is None:
            raise LoginError("this is no first message of SCRAM")
        self._header, bare, name, nonce = match[1], match[2], match[3], match[4]
        try:
            self._name = name.decode().replace("=2C", ",").replace("=3D", "=")
        except UnicodeDecodeError as error:
            raise LoginError("this is no first message of SCRAM") from error
        self._nonce = nonce + self._nonce
        credential = self.users.get((mechanism, self._name))
        if credential is None:
            raise LoginError(_failure(mechanism))
        self._credential = credential
        salt, count = b64encode(credential.salt).decode(), credential.iterations
        answer = b"r=" + self._nonce + f",s={salt},i={count}".encode()
        self._so_far = bare + b"," + answer
        return answer

    def _final(self, message: bytes, mechanism: str, credential: Credential) -> bytes:
        name, match = HASHES[mechanism], _CLIENT_FINAL.fullmatch(message)
        try:
            if match is None or match[3] != self._nonce or b64decode(match[2], validate=True) != self._header:
                raise LoginError(_failure(mechanism))
            proof = b64decode(match[4], validate=True)
        except NotBase64Error as error:
            raise LoginError(_failure(mechanism)) from error
        text = self._so_far + b"," + match[1]
        signature = hmac.digest(credential.stored_key, text, name)
        client_key = bytes(one ^ other for one, other in zip(signature, proof, strict=False))
        is_right = hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)
        if len(proof) != len(signature) or not is_right:
            raise LoginError(_failure(mechanism))
        self.user = self._name
        return b"v=" + b64encode(hmac.digest(credential.server_key, text, name))


def _failure(mechanism: str) -> str:
    return f"Authentication failed during authentication due to invalid credentials with SASL mechanism {mechanism}"
