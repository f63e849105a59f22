"""Credentials as Kubernetes Secrets, for ``kubectl apply --server-side -f -``."""

from pathlib import Path

import yaml
from deviceshare_bus.messages.permissions import USERS
from deviceshare_bus.wire.credentials import CA, CERTIFICATE, FILES, KEY

from deviceshare_cli.credentials import files, rotation
from deviceshare_cli.errors import CommandError

BUS = "deviceshare-bus-"
SERVER_SECRET = f"{BUS}server"
SECRETS = {
    files.SERVER: SERVER_SECRET,
    files.SIGNING: "deviceshare-signing",
    files.HTTP: "deviceshare-http",
    **{user: f"{BUS}{user}" for user in USERS},
}
"""The name of the Secret of each directory."""
_PAIR = {FILES[CERTIFICATE], FILES[KEY], FILES[CA]}
_REQUIRED = {
    files.SERVER: {files.AUTHORIZATION, files.ROUTES_CA, files.ROUTES_CERTIFICATE, files.ROUTES_KEY} | _PAIR,
    files.SIGNING: {files.SIGNING_KEYS},
    files.HTTP: {files.HTTP_SECRET},
}
"""What pods mount, by directory; that of a user has :data:`FILES`."""


def manifests(directory: Path, namespace: str) -> str:
    """Return the Secrets of :data:`SECRETS`: their keys are the names of the files.

    A rotation adds no users: while it lasts those of an earlier version have no others.

    Raises CommandError.
    """
    rotation.require_whole(directory)
    left_out: set[str] = set()
    if (directory / rotation.ROTATION).exists():
        authorization = files.read(directory / files.SERVER / files.AUTHORIZATION)
        left_out = {user for user in USERS if f"# {user}\n" not in authorization}
    found = {each: name for each, name in SECRETS.items() if each not in left_out}
    return yaml.safe_dump_all([_secret(directory / each, name, namespace) for each, name in found.items()])


def _secret(directory: Path, name: str, namespace: str) -> dict[str, object]:
    if not directory.is_dir():
        raise CommandError(f"{directory} does not exist")
    content = {path.name: files.read(path) for path in sorted(directory.iterdir()) if not path.name.startswith(".")}
    if missing := _REQUIRED.get(directory.name, set(FILES.values())) - content.keys():
        raise CommandError(f"{directory} has no {', '.join(sorted(missing))}, which pods mount")
    labels = {"app.kubernetes.io/part-of": "deviceshare"}
    if name == SERVER_SECRET:
        labels["app.kubernetes.io/name"] = "bus"  # deploy/rotate.sh applies it before those of the users
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "type": "Opaque",
        "stringData": content,
    }
