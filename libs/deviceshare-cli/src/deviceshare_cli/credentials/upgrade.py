"""Credentials of an earlier version with the permissions of this one. Keys stay; new users get credentials."""

import re
from collections.abc import Mapping
from pathlib import Path

from deviceshare_bus.messages.permissions import USERS, authorization
from deviceshare_bus.wire.credentials import CA, CERTIFICATE, FILES, KEY, SEED

from deviceshare_cli.credentials import files
from deviceshare_cli.credentials.certificates import DAYS, Authority
from deviceshare_cli.credentials.keys import new_seed, public_of
from deviceshare_cli.errors import CommandError

_KEY_OF_USER = re.compile(r"^    # (\S+)\n    \{\n      nkey: (\S+)$", re.MULTILINE)
"""As :func:`deviceshare_bus.messages.permissions.authorization` writes it."""
_ANY_USER = re.compile(r"\bU[A-Z2-7]{55}\b|\b(?:user|username)\s*[:=]\s*[^\s,}]+|\b(?:token|password)\b")
"""A public key, or other credentials that nats-server accepts: without secrets, for messages."""
Files = Mapping[str, str]
"""The content of files, by name."""


def upgraded(server: Files, days: int = DAYS) -> tuple[Files, dict[str, Files]]:
    """Return the files of nats-server with the permissions of this version, and those of users that it did not know.

    The certificates of new users have an authority of their own, since the key of the other one is not stored.

    Raises CommandError if nats-server's file of users is not a generated one, or has further users.
    """
    keys = _keys(server.get(files.AUTHORIZATION, ""))
    changed, created = dict(server), dict[str, Files]()
    authority = Authority("deviceshare bus", days=days)
    for user in USERS.keys() - keys.keys():
        seed = new_seed()
        keys[user], own = (public_of(seed),), {FILES[SEED]: seed + "\n"}
        if FILES[CA] in server:
            pair = authority.sign(user)
            own |= {FILES[CERTIFICATE]: pair.certificate, FILES[KEY]: pair.key, FILES[CA]: server[FILES[CA]]}
            changed[FILES[CA]] = authority.certificate + server[FILES[CA]]
        created[user] = own
    changed[files.AUTHORIZATION] = authorization({user: keys[user] for user in USERS})
    return changed, created


def upgrade(directory: Path, namespace: str, days: int = DAYS) -> bool:
    """Upgrade the credentials of a directory, in which no rotation has begun, and name their namespace in it.

    Returns whether users or permissions have changed. Raises CommandError.
    """
    server = directory / files.SERVER
    before = _server(directory)
    after, created = upgraded(before, days)
    for user, content in created.items():
        for name, text in content.items():
            files.put(directory / user / name, text)
    # The file of users is the last one: a call that was interrupted is repeated.
    for name in sorted(after, key=lambda name: name == files.AUTHORIZATION):
        if after[name] != before[name]:
            files.put(server / name, after[name])
    if not (directory / files.NAMESPACE).exists():
        files.put(directory / files.NAMESPACE, namespace + "\n")
    return after != before


def require_current(directory: Path) -> None:
    """Raise CommandError if a directory has users or permissions of another version.

    A rotation would change them in a bus that runs, which only an upgrade of the installation may do.
    """
    before = _server(directory)
    if upgraded(before)[0] != before:
        raise CommandError(
            f"{directory} has the users or permissions of another version: upgrade the installation before you rotate"
        )


def _server(directory: Path) -> Files:
    """Return the files of nats-server. Raises CommandError."""
    names = sorted(path.name for path in (directory / files.SERVER).iterdir() if not path.name.startswith("."))
    return {name: files.read(directory / files.SERVER / name) for name in names}


def _keys(text: str) -> dict[str, tuple[str, ...]]:
    """Return the public keys of each user in nats-server's file of users. Raises CommandError."""
    keys: dict[str, tuple[str, ...]] = {}
    names = {key: user for user, key in _KEY_OF_USER.findall(text)}
    for key, user in names.items():
        keys[user] = (*keys.get(user, ()), key)
    own = "; with an own file set credentials.generate=false"
    if not keys:
        raise CommandError(f"{files.AUTHORIZATION} of nats-server has no users, or was not generated{own}")
    found = _ANY_USER.findall("\n".join(line.partition("#")[0] for line in text.splitlines()))
    if unknown := {names.get(each, each) for each in found} - USERS.keys():
        listed = ", ".join(sorted(unknown))
        raise CommandError(
            f"{files.AUTHORIZATION} of nats-server has users of others, which would be lost: {listed}{own}"
        )
    return keys
