"""Secrets in the cluster: those of an installation that do not exist are generated. A Job of the Helm chart does it.

Of those that exist only the permissions of nats-server's users are changed, to those of this version.
"""

import base64
import json
from typing import Any

import yaml
from deviceshare_cluster.interface import ClusterError
from deviceshare_cluster.kube.client import ApiRefusal, KubeClient

from deviceshare_cli.credentials.certificates import DAYS
from deviceshare_cli.credentials.manifests import BUS, SERVER_SECRET
from deviceshare_cli.credentials.upgrade import upgraded
from deviceshare_cli.errors import CommandError

_NOT_FOUND, _CONFLICT = 404, 409
Secret = dict[str, Any]


async def generate_missing(client: KubeClient, manifests: str, namespace: str, days: int = DAYS) -> dict[str, str]:
    """Create the Secrets of ``manifests`` that do not exist, and upgrade nats-server's permissions to this version.

    Returns what was done (``created`` or ``updated``) by the names of the Secrets.

    The Secrets of the bus belong together, and that of nats-server is written last: without it all of them are written,
    since a Job that failed half-way may have left some. Users that are new in this version get a Secret.

    Raises:
        CommandError: some Secrets of the bus exist without others: they were not made together.
        ApiRefusal: the API server refused a request.
        ClusterError: the API server did not answer.
    """
    wanted: dict[str, Secret] = {secret["metadata"]["name"]: secret for secret in yaml.safe_load_all(manifests)}
    found = {name: await _read(client, namespace, name) for name in wanted}
    missing = [name for name, secret in found.items() if secret is None]
    server = found[SERVER_SECRET]
    done: dict[str, str] = {}
    if server is None:
        missing = [name for name in wanted if name in missing or name.startswith(BUS)]
        missing.sort(key=lambda name: name == SERVER_SECRET)
    else:
        before = _content(server)
        after, created = upgraded(before, days)
        if lost := [name for name in missing if name.startswith(BUS) and name.removeprefix(BUS) not in created]:
            raise CommandError(
                f"{', '.join(lost)} do not exist, but {SERVER_SECRET} does: restore them, "
                f"or delete {SERVER_SECRET} to generate all of them anew"
            )
        for user, content in created.items():
            wanted[f"{BUS}{user}"]["stringData"] = content
        missing = list(dict.fromkeys((*missing, *(f"{BUS}{user}" for user in created))))
    for name in missing:
        await _write(client, namespace, wanted[name])
        done[name] = "created"
    if server is not None and after != before:
        server.pop("data")
        path = f"/api/v1/namespaces/{namespace}/secrets/{SERVER_SECRET}"
        await client.request("PUT", path, body=server | {"stringData": after})
        done[SERVER_SECRET] = "updated"
    return done


async def write_missing(manifests: str, namespace: str, days: int = DAYS) -> dict[str, str]:
    """As :func:`generate_missing`, on the API server of the service account, else of the kubeconfig.

    Raises CommandError.
    """
    client = KubeClient(user_agent="deviceshare-credentials")
    try:
        await client.start()
        try:
            return await generate_missing(client, manifests, namespace, days)
        finally:
            await client.stop()
    except (ApiRefusal, ClusterError) as error:
        raise CommandError(f"cannot write the Secrets: {error}") from None


async def _read(client: KubeClient, namespace: str, name: str) -> Secret | None:
    try:
        raw = await client.request("GET", f"/api/v1/namespaces/{namespace}/secrets/{name}")
    except ApiRefusal as refusal:
        if refusal.status != _NOT_FOUND:
            raise
        return None
    secret: Secret = json.loads(raw)
    return secret


def _content(secret: Secret) -> dict[str, str]:
    """Return the files of a Secret. Raises CommandError."""
    try:
        return {name: base64.b64decode(value).decode() for name, value in (secret.get("data") or {}).items()}
    except ValueError:
        raise CommandError(f"{secret['metadata']['name']} has content that is not text") from None


async def _write(client: KubeClient, namespace: str, secret: Secret) -> None:
    path = f"/api/v1/namespaces/{namespace}/secrets"
    try:
        await client.request("POST", path, body=secret)
    except ApiRefusal as refusal:
        if refusal.status != _CONFLICT:
            raise
        await client.request("PUT", f"{path}/{secret['metadata']['name']}", body=secret)
