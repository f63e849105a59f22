"""An installed system, named by the address of its metrics service."""

import os
from urllib.parse import SplitResult, urlsplit

from deviceshare_cli import runfile
from deviceshare_cli.endpoint import check_url
from deviceshare_cli.pods import SCHEDULERS

_BEARER = "Bearer "


async def installed_run(server: str, token: str, kubeconfig: str = "", context: str = "") -> runfile.Run:
    """Return the system whose metrics service is ``server``; without a token, that of the kubeconfig is used.

    ``kubeconfig``, ``context``: '' for the default ones. The token of the kubeconfig is sent by HTTPS or to this
    machine only. Raises CommandError.
    """
    check_url("--server", server)
    return runfile.Run(
        pid=0,
        bus=os.environ.get("DEVICESHARE_BUS", ""),
        cluster="",
        metrics=server.rstrip("/"),
        directory="",
        schedulers=SCHEDULERS,
        target="kube",
        token=token or (await _kubeconfig_token(kubeconfig, context) if _is_private(urlsplit(server)) else ""),
    )


def _is_private(url: SplitResult) -> bool:
    """Return whether only this machine or the server can read what is sent to this address."""
    from deviceshare_bus.web import is_loopback  # here: it imports aiohttp, which takes long

    return url.scheme == "https" or is_loopback(url.hostname or "")


async def _kubeconfig_token(kubeconfig: str, context: str) -> str:
    """Return the token of a context of a kubeconfig, '' if it has none."""
    from deviceshare_cluster.interface import ClusterError
    from deviceshare_cluster.kube.client import KubeClient

    try:
        configuration = await KubeClient(kubeconfig, context).read_configuration()
    except ClusterError:
        return ""
    header = (configuration.api_key or {}).get("BearerToken", "")
    return header.removeprefix(_BEARER) if isinstance(header, str) else ""
