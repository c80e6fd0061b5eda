"""SaslHandshake (1) and SaslAuthenticate (0 to 2): logins by SCRAM, where there are users.

Who has logged in cannot log in again (KIP-368), as at a broker without ``connections.max.reauth.ms``: that is refused,
and the connection goes on. Left out: handshakes of version 0, after which tokens come without a request's head.
"""

from __future__ import annotations

from base64 import b64decode, b64encode

from brokerless.serving.login import Login, LoginError
from brokerless.serving.protocol.errors import Error
from brokerless.values import Row

HANDSHAKE, AUTHENTICATE = 17, 36


def answer_handshake(login: Login, body: Row) -> Row:
    """Choose a mechanism, once: a broker in the middle of a login refuses another one."""
    if login.has_begun:
        return {"errorCode": Error.ILLEGAL_SASL_STATE, "mechanisms": []}
    error = Error.NONE if login.begin(body["mechanism"]) else Error.UNSUPPORTED_SASL_MECHANISM
    return {"errorCode": error, "mechanisms": login.mechanisms}


def answer_authenticate(login: Login, body: Row) -> Row:
    """Answer a message of the mechanism."""
    if login.user is not None:
        return {"errorCode": Error.ILLEGAL_SASL_STATE, "errorMessage": "the login has ended before"}
    try:
        return {"authBytes": b64encode(login.step(b64decode(body["authBytes"]))).decode()}
    except LoginError as error:
        return {"errorCode": Error.SASL_AUTHENTICATION_FAILED, "errorMessage": str(error)}
