"""TLS of a listener: its certificate and key, and the authorities whose clients may connect.

Versions before 1.2 are refused. Brokers trust each certificate of their truststore, be it a root or not; so does this.
"""

from __future__ import annotations

import ssl

from brokerless.errors import UsageError


def tls_context(certificate: str | None, key: str | None = None, client_ca: str | None = None) -> ssl.SSLContext | None:
    """Return what a listener needs for TLS, by files in PEM; None without a certificate.

    Without ``key``, the key is in the file of ``certificate``. With ``client_ca``, clients need a certificate of one of
    these authorities. Raises :class:`UsageError` for files that have none of it.
    """
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:  # SSLError is an OSError
        if key is not None:
            text = f"{certificate} and {key} have no certificate with its key: {_plain(error)}"
        else:
            text = f"{certificate} has no certificate with its key: {_plain(error)}; give the key with --tls-key "
            text += "FILE, or put it into the same file"
        raise UsageError(text) from error
    if client_ca is not None:
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        try:
            context.load_verify_locations(client_ca)
        except (OSError, ValueError) as error:
            raise UsageError(f"{client_ca} has no certificates: {_plain(error)}") from error
    return context


def _plain(error: Exception) -> str:
    """Return why ``ssl`` does not take files."""
    if isinstance(error, ssl.SSLError) and error.reason == "KEY_VALUES_MISMATCH":
        return "the key is that of another certificate"
    if isinstance(error, ssl.SSLError):
        return "there is none in PEM"
    return str(error.strerror if isinstance(error, OSError) else error)
