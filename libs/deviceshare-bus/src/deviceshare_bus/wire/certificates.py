"""The end of a certificate's validity, read from its encoding (X.690, RFC 5280): the ssl module shows it only of
certificates that a peer has shown.
"""

import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

_VERSION = 0xA0
_FORMATS = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""Of times, by their tag: UTCTime until 2049, then GeneralizedTime."""
_FIELDS_BEFORE_VALIDITY = 3
"""Serial number, algorithm and issuer."""


def valid_until(pem: str) -> float:
    """Return the end of a certificate's validity in unix seconds; of several certificates that of the first.

    Raises ValueError.
    """
    begin = pem.find("-----BEGIN CERTIFICATE-----")
    end = pem.find(ssl.PEM_FOOTER, begin) + len(ssl.PEM_FOOTER)
    try:
        _, certificate = next(_elements(ssl.PEM_cert_to_DER_cert(pem[max(begin, 0) : end])))
        _, content = next(_elements(certificate))
        fields = [value for tag, value in _elements(content) if tag != _VERSION]
        _, (tag, text) = _elements(fields[_FIELDS_BEFORE_VALIDITY])
        return datetime.strptime(text.decode(), _FORMATS[tag]).replace(tzinfo=UTC).timestamp()
    except (LookupError, StopIteration) as error:
        raise ValueError("not a certificate") from error


def _elements(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the tag and the content of each element of an encoded sequence."""
    at = 0
    while at < len(data):
        tag, length, at = data[at], data[at + 1], at + 2
        if length > 0x7F:  # so many bytes with the length follow
            size = length & 0x7F
            length, at = int.from_bytes(data[at : at + size]), at + size
        yield tag, data[at : at + length]
        at += length
