"""The directory of credentials: what nats-server gets, what each user gets, and what only a rotation needs."""

import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from deviceshare_bus.messages.permissions import USERS, authorization
from deviceshare_bus.wire.credentials import CA, CERTIFICATE, FILES, KEY, SEED

from deviceshare_cli.credentials.certificates import DAYS, Authority
from deviceshare_cli.credentials.keys import new_seed, public_of
from deviceshare_cli.errors import CommandError

SERVER, SIGNING, HTTP = "server", "signing", "http"
AUTHORIZATION = "auth.conf"
SIGNING_KEYS, HTTP_SECRET = "keys", "secret"
NAMESPACE = "namespace"
"""The file that names the namespace of the Secrets."""
DEFAULT_NAMESPACE = "deviceshare-system"
ROUTES_CA, ROUTES_CERTIFICATE, ROUTES_KEY = "routes-ca.crt", "routes.crt", "routes.key"
"""Of the connections between nats-servers. Their authority signs servers only: a user of the bus cannot pose as one."""
MAX_SERVERS = 5
"""nats-servers of a cluster, at most."""


def default_hosts(namespace: str) -> tuple[str, ...]:
    """Return the names by which clients reach nats-server: of the Service in a namespace, and of this machine."""
    names = [f"bus{domain}" for domain in ("", f".{namespace}", f".{namespace}.svc", f".{namespace}.svc.cluster.local")]
    # OpenSSL accepts *.bus.NAMESPACE but not *.bus.
    servers = [f"bus-{number}.bus" for number in range(MAX_SERVERS)]
    return ("localhost", "127.0.0.1", "::1", *names, *servers, *(f"*.{name}" for name in names[1:]))


def write(
    directory: Path,
    hosts: Sequence[str],
    *,
    tls: bool = True,
    days: int = DAYS,
    namespace: str = DEFAULT_NAMESPACE,
) -> None:
    """Write new credentials into a directory that does not exist or is empty; with ``tls`` also certificates.

    The directory gets all files at once: an interrupted call leaves it as it was.

    Raises CommandError if the directory has content or cannot be written.
    """
    with whole(directory) as new:
        seeds = {user: new_seed() for user in USERS}
        write_seeds(new, seeds)
        write_authorization(new, {user: (public_of(seed),) for user, seed in seeds.items()})
        if tls:
            authority, routes = Authority("deviceshare bus", days=days), Authority("deviceshare bus routes", days=days)
            write_user_certificates(new, authority)
            write_authorities(new, authority.certificate, routes.certificate)
            write_server_certificates(new / SERVER, authority, routes, hosts)
        put(new / SIGNING / SIGNING_KEYS, secrets.token_urlsafe(32) + "\n")
        # Without a line break: Prometheus sends the file as it is.
        put(new / HTTP / HTTP_SECRET, secrets.token_urlsafe(32))
        put(new / NAMESPACE, namespace + "\n")


def write_seeds(directory: Path, seeds: Mapping[str, str]) -> None:
    """Write the seed of each user."""
    for user, seed in seeds.items():
        put(directory / user / FILES[SEED], seed + "\n")


def write_authorization(directory: Path, keys: Mapping[str, tuple[str, ...]]) -> None:
    """Write the users, their public keys and permissions for nats-server."""
    put(directory / SERVER / AUTHORIZATION, authorization(keys))


def write_user_certificates(directory: Path, authority: Authority) -> None:
    """Write a new certificate for each user."""
    for user in USERS:
        pair = authority.sign(user)
        put(directory / user / FILES[CERTIFICATE], pair.certificate)
        put(directory / user / FILES[KEY], pair.key)


def write_server_certificates(directory: Path, authority: Authority, routes: Authority, hosts: Sequence[str]) -> None:
    """Write new certificates of nats-server: for its clients, and for other servers."""
    of_clients, of_routes = authority.sign("bus", hosts), routes.sign("bus", hosts)
    put(directory / FILES[CERTIFICATE], of_clients.certificate)
    put(directory / FILES[KEY], of_clients.key)
    put(directory / ROUTES_CERTIFICATE, of_routes.certificate)
    put(directory / ROUTES_KEY, of_routes.key)


def write_authorities(directory: Path, authorities: str, routes: str) -> None:
    """Write the certificates of the authorities that users and nats-server accept."""
    for name in (SERVER, *USERS):
        put(directory / name / FILES[CA], authorities)
    put(directory / SERVER / ROUTES_CA, routes)


def put(path: Path, text: str) -> None:
    """Write a file that only its owner can read, in one step: a process that reads it finds the old or the new text.

    Raises CommandError.
    """
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".new-")  # mode 0600
        try:
            with os.fdopen(descriptor, "w", encoding="ascii") as file:
                file.write(text)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CommandError(f"cannot write {path}: {error.strerror or error}") from None


def read(path: Path) -> str:
    """Return the text of a file. Raises CommandError."""
    try:
        return path.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise CommandError(f"cannot read {path}: {reason}") from None


def namespace_of(directory: Path, wanted: str | None) -> str:
    """Return the namespace of the Secrets of a directory, which may not exist yet: ``wanted``, if any.

    Raises CommandError if the directory has been made for another one: the certificate of nats-server names it.
    """
    path = directory / NAMESPACE
    own = read(path).strip() if path.exists() else ""
    if own and wanted and own != wanted:
        raise CommandError(f"{directory} is for the namespace {own}, not {wanted}")
    return own or wanted or DEFAULT_NAMESPACE


@contextmanager
def whole(directory: Path) -> Iterator[Path]:
    """Give an empty directory that only its owner can enter, and that becomes ``directory`` if nothing is raised.

    ``directory`` does not exist, or is empty. The content is beside it until then: a process that is killed leaves
    ``directory`` as it was, and the next call removes the rest.

    Raises CommandError.
    """
    directory = directory.resolve()
    new = directory.with_name(f".{directory.name}.new")
    try:
        if directory.exists() and any(directory.iterdir()):
            raise CommandError(f"{directory} is not empty")
        if new.exists():
            shutil.rmtree(new)
        new.mkdir(mode=0o700, parents=True)
        try:
            yield new
            new.rename(directory)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    except OSError as error:
        raise CommandError(f"cannot write {directory}: {error.strerror or error}") from None
