"""Replacing credentials in two steps, between which nats-server and its clients accept the old ones and the new ones.

1. :func:`begin`: users get new seeds and certificates, nats-server accepts both keys of every user, and all
   accept certificates of both authorities. nats-server still shows its old certificate, since clients that have not
   read their files again know only the old authority.
2. :func:`finish`: nats-server shows its new certificate and accepts only the new keys; it ends the connections of
   clients with old ones, which connect again with the files that they have by now. The old authority does not count
   any more.

Each step is complete when nats-server has reloaded its configuration and the files have reached their users.

The directory ``rotation`` holds the new files of both steps, and is there from before the first until the end of the
second. A step copies its files and then removes them: one that was interrupted is completed by calling it again.

The key that signs device annotations is not replaced: services read it only when they start, so that a binder could
sign with a key that a running inventory does not know.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from deviceshare_bus.messages.permissions import USERS
from deviceshare_bus.wire.credentials import CA, CERTIFICATE, FILES, SEED

from deviceshare_cli.credentials import files
from deviceshare_cli.credentials.certificates import DAYS, Authority, hosts_of
from deviceshare_cli.credentials.keys import new_seed, public_of
from deviceshare_cli.errors import CommandError

ROTATION = "rotation"
_BEGIN, _FINISH, _FINISHING = "begin", "finish", "finishing"


def begin(directory: Path, hosts: Sequence[str] = (), days: int = DAYS) -> None:
    """Add new credentials to the ones of a directory.

    ``hosts``: further names and IP addresses of nats-server, beside those in its present certificate.

    Raises CommandError.
    """
    pending = directory / ROTATION
    _require_own(pending)
    if not pending.exists():
        with files.whole(pending) as new:
            _prepare(directory, new, hosts, days)
    elif not (pending / _BEGIN).exists():
        raise CommandError(f"{pending}: a rotation has begun: --finish removes the old credentials")
    _apply(pending / _BEGIN, directory)


def finish(directory: Path) -> None:
    """Remove the old credentials. Raises CommandError."""
    pending = directory / ROTATION
    if not pending.exists():
        raise CommandError(f"{directory}: no rotation has begun: --rotate adds new credentials")
    _require_own(pending)
    if (pending / _BEGIN).exists():
        raise CommandError(f"{pending}: the first step was interrupted: --rotate completes it")
    try:
        if (pending / _FINISH).exists():
            (pending / _FINISH).rename(pending / _FINISHING)
        _apply(pending / _FINISHING, directory)
        pending.rmdir()
    except OSError as error:
        raise CommandError(f"cannot change {pending}: {error.strerror or error}") from None


def require_whole(directory: Path) -> None:
    """Raise CommandError if a step was interrupted: files of before and after it do not fit together."""
    _require_own(directory / ROTATION)
    for step, option in ((_BEGIN, "--rotate"), (_FINISHING, "--finish")):
        if (directory / ROTATION / step).exists():
            raise CommandError(f"{directory}: a rotation was interrupted: {option} completes it")


def _require_own(pending: Path) -> None:
    """Raise CommandError if a rotation was begun by a version of the command with other files."""
    if pending.exists() and {path.name for path in pending.iterdir()} - {_BEGIN, _FINISH, _FINISHING}:
        raise CommandError(
            f"{pending}: another version of this command has begun the rotation: finish it with that one"
        )


def _prepare(directory: Path, new: Path, hosts: Sequence[str], days: int) -> None:
    """Write the files of both steps."""
    first, second = new / _BEGIN, new / _FINISH
    for step in (first, second):
        step.mkdir(mode=0o700)
    server = directory / files.SERVER
    old = {user: public_of(files.read(directory / user / FILES[SEED])) for user in USERS}
    seeds = {user: new_seed() for user in USERS}
    files.write_seeds(first, seeds)
    files.write_authorization(first, {user: (public_of(seed), old[user]) for user, seed in seeds.items()})
    files.write_authorization(second, {user: (public_of(seed),) for user, seed in seeds.items()})
    if not (server / FILES[CA]).exists():
        return
    authority, routes = Authority("deviceshare bus", days=days), Authority("deviceshare bus routes", days=days)
    old_ca, old_routes = files.read(server / FILES[CA]), files.read(server / files.ROUTES_CA)
    files.write_user_certificates(first, authority)
    files.write_authorities(first, authority.certificate + old_ca, routes.certificate + old_routes)
    files.write_authorities(second, authority.certificate, routes.certificate)
    every_host = dict.fromkeys((*hosts_of(files.read(server / FILES[CERTIFICATE])), *hosts))
    files.write_server_certificates(second / files.SERVER, authority, routes, list(every_host))


def _apply(step: Path, directory: Path) -> None:
    """Copy the files of a step, then remove the step."""
    for path in sorted(step.rglob("*")):
        if path.is_file():
            files.put(directory / path.relative_to(step), files.read(path))
    try:
        shutil.rmtree(step)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise CommandError(f"cannot remove {step}: {error.strerror or error}") from None
