"""Certificates: an authority that signs some and whose key is never stored.

Further certificates need a new authority (:mod:`.rotation`); a stored key of an authority would be one
more secret that lets its owner be anybody.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from deviceshare_cli.errors import CommandError

DAYS = 365
"""Days for which certificates are valid, unless said otherwise."""
BACKDATED = timedelta(hours=1)
"""How long before now they become valid: clocks differ."""


class Pair(NamedTuple):
    """A certificate and its key, in PEM."""

    certificate: str
    key: str


class Authority:
    """Signs certificates until it is forgotten."""

    def __init__(self, name: str, now: datetime | None = None, days: int = DAYS) -> None:
        self._begin = (now or datetime.now(UTC)) - BACKDATED
        self._end = (now or datetime.now(UTC)) + timedelta(days=days)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._name, self._key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        usage = x509.KeyUsage(
            digital_signature=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            key_cert_sign=True,
            crl_sign=True,
            encipher_only=False,
            decipher_only=False,
        )
        builder = builder.add_extension(usage, critical=True)
        self.certificate = _pem(builder.sign(self._key, hashes.SHA256()))
        """Its own certificate, in PEM."""

    def sign(self, name: str, hosts: Sequence[str] = ()) -> Pair:
        """Return a new certificate: of a server if it has hosts (names and IP addresses), which are also clients."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key.public_key())
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        purposes = [ExtendedKeyUsageOID.CLIENT_AUTH]
        if hosts:
            purposes.append(ExtendedKeyUsageOID.SERVER_AUTH)
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        builder = builder.add_extension(x509.ExtendedKeyUsage(purposes), critical=False)
        text = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return Pair(_pem(builder.sign(self._key, hashes.SHA256())), text.decode())

    def _builder(self, subject: x509.Name, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._begin)
            .not_valid_after(self._end)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
            .add_extension(authority, critical=False)
        )


def hosts_of(certificate: str) -> tuple[str, ...]:
    """Return the names and IP addresses for which a certificate of :meth:`Authority.sign` is valid.

    Raises CommandError.
    """
    found = _parsed(certificate)
    try:
        names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names)


def end_of(certificate: str) -> datetime:
    """Return until when a certificate is valid. Raises CommandError."""
    return _parsed(certificate).not_valid_after_utc


def _parsed(certificate: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(certificate.encode())
    except ValueError:
        raise CommandError("a file of credentials does not hold a certificate") from None


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()
