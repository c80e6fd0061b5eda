"""Logins by SCRAM (RFC 5802, KIP-84): with users of a file, or those of the dead cluster, whose old passwords work.
Over TLS, users of a file log in by PLAIN (RFC 4616) as well, which sends the password.

The metadata of a cluster has no passwords, but what a server needs to check one. Sources: ``ScramSaslServer``,
``ScramFormatter``, ``ScramMessages`` and ``PlainSaslServer`` (4.4.0). Left out: OAUTHBEARER, GSSAPI, delegation tokens,
channel binding.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64Error
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from brokerless.errors import UnreadableError, UsageError
from brokerless.log.storage.location import Location

if TYPE_CHECKING:
    from brokerless.internals.metadata.cluster import Cluster

HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""Of the mechanisms, by name."""
PLAIN = "PLAIN"
ITERATIONS = 4096
_LARGEST_FILE = 16 << 20
_CLIENT_FIRST = re.compile(rb"(n,(?:a=([^,]+))?,)(?:m=[^,]*,)?(n=([^,]+),r=([\x21-\x2b\x2d-\x7e]+)(?:,.*)?)", re.DOTALL)
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
        """Return the credential of a password, with a random salt."""
        salt = os.urandom(16)
        if mechanism == PLAIN:  # whoever reads this memory could have read the file
            return cls(salt, hmac.digest(salt, password.encode(), "sha256"), b"", 1)
        name = HASHES[mechanism]
        salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, ITERATIONS)
        client_key = hmac.digest(salted, b"Client Key", name)
        return cls(salt, hashlib.new(name, client_key).digest(), hmac.digest(salted, b"Server Key", name), ITERATIONS)


Users = Mapping[tuple[str, str], Credential]
"""By mechanism and name."""


def read_users(path: str, *, has_tls: bool = False) -> Users:
    """Read a file with a ``name:password`` a line. ``has_tls``: nobody listens, so that PLAIN is allowed.

    Raises :class:`UsageError`."""
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
        for mechanism in (*HASHES, PLAIN) if has_tls else HASHES:
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


_PARTS_OF_PLAIN = 3
_NOBODY = Credential(b"nobody", b"", b"", 1)


@dataclass(slots=True)
class Login:
    """The login of one connection."""

    users: Users
    user: str | None = None
    """The user who has logged in, None before that."""
    _mechanism: str | None = None
    _name: str = ""
    _credential: Credential | None = None
    _so_far: bytes = b""
    _header: bytes = b""
    _nonce: bytes = b""

    @property
    def mechanisms(self) -> list[str]:
        """The names of the mechanisms that have users."""
        return sorted({mechanism for mechanism, _ in self.users})

    @property
    def has_begun(self) -> bool:
        """Whether a mechanism was chosen, which a connection does once."""
        return self._mechanism is not None

    def begin(self, mechanism: str) -> bool:
        """Choose a mechanism; return whether it is known."""
        if mechanism not in self.mechanisms:
            return False
        self._mechanism = mechanism
        return True

    def step(self, message: bytes) -> bytes:
        """Answer a message of the client. Raises :class:`LoginError`."""
        if self._mechanism is None:
            raise LoginError("no login has begun")
        if self._mechanism == PLAIN:
            return self._plain(message)
        if self._credential is None:
            return self._first(message, self._mechanism)
        return self._final(message, self._mechanism, self._credential)

    def _plain(self, message: bytes) -> bytes:
        try:
            parts = message.decode().split("\0")
        except UnicodeDecodeError as error:
            raise LoginError("this is no message of PLAIN") from error
        if len(parts) != _PARTS_OF_PLAIN:
            raise LoginError("this is no message of PLAIN")
        authorization_id, name, password = parts
        known = self.users.get((PLAIN, name))
        credential = known or _NOBODY
        found = hmac.digest(credential.salt, password.encode(), "sha256")
        if not hmac.compare_digest(found, credential.stored_key) or known is None:
            raise LoginError("Authentication failed: Invalid username or password")
        if authorization_id not in ("", name):
            raise LoginError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.user = name
        return b""

    def _first(self, message: bytes, mechanism: str) -> bytes:
        match = _CLIENT_FIRST.fullmatch(message)
        if match is None:
            raise LoginError("this is no first message of SCRAM")
        self._header, authorization_id, bare, name, nonce = match.groups()
        try:
            self._name = name.decode().replace("=2C", ",").replace("=3D", "=")
        except UnicodeDecodeError as error:
            raise LoginError("this is no first message of SCRAM") from error
        credential = self.users.get((mechanism, self._name))
        if credential is None:
            raise LoginError(_failure(mechanism))
        if authorization_id not in (None, self._name.encode()):
            raise LoginError("Authentication failed: an authorization id has to be the user's own name")
        self._nonce = nonce + b64encode(os.urandom(24))
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
