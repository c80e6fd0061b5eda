"""An authority that signs certificates, of servers on this machine and of clients with any name."""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

NOW = datetime.datetime.now(datetime.UTC)
DAY = datetime.timedelta(days=1)


def name(*attributes: tuple[x509.ObjectIdentifier, str]) -> x509.Name:
    return x509.Name([x509.NameAttribute(*each) for each in attributes])


@dataclass
class Authority:
    """Writes files in PEM: certificates with their keys, and its own certificate in ``ca``."""

    directory: Path
    common_name: str = "authority"
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        self.ca.write_bytes(self._signed(self.subject, self.key, is_authority=True))

    @property
    def subject(self) -> x509.Name:
        return name((x509.NameOID.COMMON_NAME, self.common_name))

    @property
    def ca(self) -> Path:
        return self.directory / f"{self.common_name}.pem"

    def issue(self, file: str, subject: x509.Name, until: datetime.datetime = NOW + DAY) -> Path:
        """A certificate that servers of 127.0.0.1 and clients may use, and its key, in one file."""
        key = ec.generate_private_key(ec.SECP256R1())
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        path = self.directory / file
        path.write_bytes(self._signed(subject, key, until) + private)
        return path

    def _signed(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, until: datetime.datetime = NOW + DAY, *,
        is_authority: bool = False,
    ) -> bytes:  # fmt: skip
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(NOW - 2 * DAY)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
            builder = builder.add_extension(x509.SubjectAlternativeName([address]), critical=not subject.rdns)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
