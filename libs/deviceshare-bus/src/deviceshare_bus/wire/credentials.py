"""Credentials of a client of the bus: the seed of its nkey and the files of TLS, which may be replaced.

Nothing is kept from one connection to the next: a reconnect reads the files again, so that new keys and certificates
need no restart.
"""

import os
import ssl
from argparse import ArgumentParser, Namespace
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deviceshare.model import ConfigError

from deviceshare_bus.messages.permissions import inbox
from deviceshare_bus.wire.certificates import valid_until

SEED, CA, CERTIFICATE, KEY = "bus-credentials", "bus-ca", "bus-certificate", "bus-key"
"""The options."""
VARIABLES = {
    SEED: "DEVICESHARE_BUS_CREDENTIALS",
    CA: "DEVICESHARE_BUS_CA",
    CERTIFICATE: "DEVICESHARE_BUS_CERTIFICATE",
    KEY: "DEVICESHARE_BUS_KEY",
}
"""Their environment variables."""
FILES = {SEED: "seed.nk", CA: "ca.crt", CERTIFICATE: "tls.crt", KEY: "tls.key"}
"""The names of the files in the directory that ``deviceshare credentials`` writes for a user."""
_HELP = {
    SEED: "file with the seed of this user's nkey, or a .creds file (default: none, for a bus without users)",
    CA: "PEM file with the certificates that sign the certificate of nats-server (default: those of the system)",
    CERTIFICATE: "PEM file with the certificate that is shown to nats-server",
    KEY: "PEM file with its key",
}
_CREDS = "-----BEGIN NATS USER JWT-----"


@dataclass(frozen=True)
class Credentials:
    """The paths of the files, '' for none, and the user for whom they were made."""

    seed: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    user: str = ""
    """The second token of the subjects of its inboxes; '' for any subject that nats-py chooses."""

    @property
    def given(self) -> bool:
        """Whether the client is a user with rights of its own, which need not include the creation of streams."""
        return bool(self.seed)

    @property
    def secures(self) -> bool:
        """Whether there are files of TLS, which only ``tls://`` uses."""
        return bool(self.ca or self.certificate or self.key)

    def certificate_end(self) -> float | None:
        """Return until when the certificate in its file is valid, in unix seconds; None if none can be read."""
        try:
            return valid_until(Path(self.certificate).read_text("ascii", "replace")) if self.certificate else None
        except (OSError, ValueError):
            return None

    def arguments(self) -> tuple[str, ...]:
        """Return the options of a service that uses the same files."""
        given = ((SEED, self.seed), (CA, self.ca), (CERTIFICATE, self.certificate), (KEY, self.key))
        return tuple(word for option, path in given if path for word in (f"--{option}", path))

    def connect_options(self) -> dict[str, Any]:
        """Return the arguments of nats-py's ``connect``; the files are read again at each connection."""
        chosen: dict[str, Any] = {"inbox_prefix": self.inbox} if self.inbox else {}
        if self.seed:
            chosen["nkeys_seed" if self.public_key() else "user_credentials"] = self.seed
        return chosen

    @property
    def inbox(self) -> str:
        """The prefix of the subjects of its inboxes, '' for that of nats-py."""
        return inbox(self.user) if self.user and self.seed else ""

    def public_key(self) -> str:
        """Return the public nkey of the seed file, '' for a ``.creds`` file, whose token names the key.

        Raises ConfigError.
        """
        text = self._read(SEED, self.seed)
        if _CREDS in text:
            return ""
        import nkeys  # type: ignore[import-untyped]  # here: most commands need none, and it takes long

        try:
            pair = nkeys.from_seed(bytearray(text.strip().encode()))
        except Exception:  # nkeys raises its own errors, binascii's and struct's
            # The error must not show the seed.
            raise self._error(SEED, self.seed, "the seed of a user's nkey, SU…, or a .creds file") from None
        public = str(pair.public_key.decode())
        pair.wipe()
        return public

    def tls(self) -> ssl.SSLContext:
        """Return the TLS settings from the files as they are now. Raises ConfigError."""
        if self.ca:
            self._require_readable(CA, self.ca)
        try:
            context = ssl.create_default_context(ssl.Purpose.SERVER_AUTH, cafile=self.ca or None)
        except ssl.SSLError as error:
            raise self._error(CA, self.ca, f"certificates in PEM ({error})") from error
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if bool(self.certificate) != bool(self.key):
            option, path = (CERTIFICATE, self.certificate) if self.certificate else (KEY, self.key)
            raise self._error(option, path, "a certificate and its key: both options or none")
        if self.certificate:
            self._require_readable(CERTIFICATE, self.certificate)
            self._require_readable(KEY, self.key)
            try:
                context.load_cert_chain(self.certificate, self.key)
            except ssl.SSLError as error:
                raise self._error(
                    CERTIFICATE, self.certificate, f"a certificate that fits its key ({error})"
                ) from error
        return context

    def _read(self, option: str, path: str) -> str:
        try:
            return Path(path).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise self._error(option, path, f"a file that can be read ({reason})") from error

    def _require_readable(self, option: str, path: str) -> None:
        """Raise ConfigError if a file cannot be read. OpenSSL reads it, and accepts comments in any encoding."""
        try:
            Path(path).read_bytes()
        except OSError as error:
            raise self._error(option, path, f"a file that can be read ({error.strerror})") from error

    def _error(self, option: str, path: str, expected: str) -> ConfigError:
        return ConfigError("command line", f"--{option} / {VARIABLES[option]}", path, expected)


ANONYMOUS = Credentials()
"""The credentials of a client of a bus without users."""


def add_options(parser: ArgumentParser) -> None:
    """Add the options of the files."""
    for option, text in _HELP.items():
        default = os.environ.get(VARIABLES[option], "")
        parser.add_argument(f"--{option}", default=default, metavar="FILE", help=text)


def of_options(options: Namespace, user: str) -> Credentials:
    """Return the credentials of a user from the parsed options of :func:`add_options`."""
    return Credentials(options.bus_credentials, options.bus_ca, options.bus_certificate, options.bus_key, user)


def of_environment(user: str) -> Credentials:
    """Return the credentials of a user from the environment variables alone."""
    seed, ca, certificate, key = (os.environ.get(VARIABLES[option], "") for option in _HELP)
    return Credentials(seed, ca, certificate, key, user)


def of_directory(directory: Path, user: str) -> Credentials:
    """Return the credentials of a user in a directory of ``deviceshare credentials``: of the files that exist."""
    paths = [directory / user / name for name in FILES.values()]
    seed, ca, certificate, key = (str(path) if path.exists() else "" for path in paths)
    return Credentials(seed, ca, certificate, key, user)
