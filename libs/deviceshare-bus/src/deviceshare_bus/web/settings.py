"""Settings of the HTTP ports: who may read them."""

import argparse
import hmac
import logging
import os
import time
from collections.abc import Callable
from ipaddress import ip_address
from pathlib import Path
from typing import Literal, NamedTuple

from deviceshare.model import ConfigError

log = logging.getLogger("deviceshare.http")

Mode = Literal["kubernetes", "secret", "open", "loopback"]
_MODES = ("kubernetes", "secret", "open")
MIN_CHARACTERS = 16
"""Characters of a secret, at least."""
MAX_CHARACTERS = 8_000
"""Characters of a token or secret, at most."""
MAX_BYTES = 64 << 10
"""Size of the file of secrets, at most."""
READ_SECONDS = 2.0
"""Seconds after which it is checked whether the file of secrets has changed."""


class SecretFile:
    """The secrets of a file, one a line; it is read again when it changes.

    A file that cannot be read any more, or has no valid secret, leaves the last secrets in effect.

    Raises:
        ConfigError: the file cannot be read, or is not valid.
    """

    def __init__(self, path: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = Path(path)
        self._clock = clock
        self._due = clock() + READ_SECONDS
        self._secrets = self._read()
        self._problem = ""
        """Why the file could not be read the last time."""

    def accepts(self, token: str) -> bool:
        """Return whether a token is one of the secrets, in a time that does not depend on their characters."""
        if self._clock() >= self._due:
            self._due = self._clock() + READ_SECONDS
            try:
                self._secrets = self._read()
                self._problem = ""
            except ConfigError as error:
                if str(error) != self._problem:
                    self._problem = str(error)
                    log.warning("the last secrets stay in effect: %s", error)
        if not is_token(token):
            return False
        equal = [hmac.compare_digest(token, secret) for secret in self._secrets]
        return any(equal)

    def _read(self) -> tuple[str, ...]:
        def wrong(value: str, expected: str) -> ConfigError:
            return ConfigError("HTTP", "--http-secret-file", value, expected)

        try:
            with self._path.open("rb") as file:
                content = file.read(MAX_BYTES + 1)
        except OSError as error:
            raise wrong(str(self._path), f"a file that can be read ({error.strerror})") from None
        secrets = tuple(line.strip().decode("latin-1") for line in content.splitlines() if line.strip())
        valid = all(is_token(secret) and len(secret) >= MIN_CHARACTERS for secret in secrets)
        if not secrets or len(content) > MAX_BYTES or not valid:
            # Not the value: it is a secret.
            expected = (
                f"a file with one secret a line, each of {MIN_CHARACTERS} to {MAX_CHARACTERS} printable ASCII "
                "characters, up to 64 KiB"
            )
            raise wrong(str(self._path), expected)
        return secrets


def is_token(text: str) -> bool:
    """Return whether a text can be a token or secret; headers may have any bytes."""
    return len(text) <= MAX_CHARACTERS and text.isascii() and text.isprintable()


class HttpSettings(NamedTuple):
    """Who may read a port. ``hosts`` are the names of the server beside IP addresses and ``localhost``."""

    mode: Mode
    secrets: SecretFile | None = None
    hosts: frozenset[str] = frozenset()


LOOPBACK = HttpSettings("loopback")
"""A loopback address without a setting: everybody on this machine may read it."""


def _mode(text: str) -> str:
    if text in ("", *_MODES):
        return text
    raise argparse.ArgumentTypeError(f"{text!r} is not valid: expected kubernetes, secret or open")


def add_http_options(options: argparse.ArgumentParser) -> None:
    """Add the options of all HTTP ports of a service."""
    environment = os.environ.get
    options.add_argument(
        "--http-access",
        type=_mode,
        default=environment("DEVICESHARE_HTTP_ACCESS", ""),
        metavar="MODE",
        help="who may read /metrics, the page and the JSON API: kubernetes (tokens), secret or open "
        "(default: secret if there is a file, else a loopback address is required)",
    )
    options.add_argument(
        "--http-secret-file",
        default=environment("DEVICESHARE_HTTP_SECRET_FILE", ""),
        metavar="FILE",
        help="a file with one shared secret a line",
    )
    options.add_argument(
        "--http-hosts",
        default=environment("DEVICESHARE_HTTP_HOSTS", ""),
        metavar="NAMES",
        help="further names of the server, separated by commas, if it is open or on a loopback address",
    )


def http_settings(options: argparse.Namespace, address: str, option: str) -> HttpSettings:
    """Return the settings of a port on ``address``; ``option`` is the option that sets the address.

    Raises:
        ConfigError: a setting is missing or not valid.
    """
    secrets = SecretFile(options.http_secret_file) if options.http_secret_file else None
    hosts = frozenset(name.strip().lower().rstrip(".") for name in options.http_hosts.split(",") if name.strip())
    mode: Mode = options.http_access or ("secret" if secrets is not None else "loopback")
    if mode == "secret" and secrets is None:
        raise ConfigError("HTTP", "--http-access", mode, "also --http-secret-file, the file with the secret")
    if mode == "loopback" and not is_loopback(address):
        expected = (
            "--http-access kubernetes, secret (with --http-secret-file) or open (DEVICESHARE_HTTP_ACCESS), "
            "or a loopback address"
        )
        raise ConfigError("HTTP", option, address, expected)
    return HttpSettings(mode, secrets, hosts)


def is_loopback(address: str) -> bool:
    """Return whether a server on this address can be reached from this machine only."""
    try:
        return ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"
