"""All objects of some kinds in a cluster, by the kubeconfig, without an installation."""

from collections.abc import Iterable

from deviceshare_cluster.interface import ClusterError, Object

from deviceshare_cli.errors import CommandError


async def list_kinds(
    kinds: Iterable[str], command: str, kubeconfig: str = "", context: str = ""
) -> dict[str, list[Object]]:
    """Return the objects by kind; ``command`` names the client to the API server. Raises CommandError."""
    from deviceshare_cluster.kube import KubeCluster

    try:
        async with KubeCluster(kubeconfig, context, name=f"deviceshare-{command}") as cluster:
            return {kind: await cluster.list(kind) for kind in kinds}
    except ClusterError as error:
        raise CommandError(str(error)) from None
