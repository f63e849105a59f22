"""The end of a certificate, read without the package of the command."""

from datetime import UTC, datetime

import pytest
from deviceshare_bus.wire.certificates import valid_until
from deviceshare_cli.credentials.certificates import Authority, end_of


@pytest.mark.parametrize("days", [1, 365, 20_000])  # the last one is after 2049, which is encoded in another way
def test_it_is_that_of_the_certificate(days: int) -> None:
    authority = Authority("test", datetime(2026, 3, 1, 12, 30, 15, tzinfo=UTC), days)
    for pem in (authority.certificate, authority.sign("bus", ("localhost",)).certificate):
        assert valid_until(f"# a comment\n{pem}{Authority('next').certificate}") == end_of(pem).timestamp()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "no certificate",
        "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nMAMCAQE=\n-----END CERTIFICATE-----\n",
        "-----BEGIN CERTIFICATE-----\nMIIBAQ==\n-----END CERTIFICATE-----\n",
    ],
)
def test_what_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match=r"certificate|PEM|padding"):
        valid_until(text)
