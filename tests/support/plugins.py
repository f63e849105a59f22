"""Minimal device plugins and kubelets: on an API server without any, tests serve the pods."""

from datetime import UTC, datetime

from deviceshare_localcluster.plugins import written_by_plugins
from support.apiserver import ApiServer

PLUGIN = "system:serviceaccount:kube-system:volcano-device-plugin"
MERGE = "application/merge-patch+json"


def serve(server: ApiServer, namespace: str, *but: str) -> None:
    """Serve and admit all bound pods of a namespace but these, as the device plugins and kubelets of their nodes."""
    for pod in server.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]:
        metadata = pod["metadata"]
        written = written_by_plugins(metadata.get("annotations") or {}) if pod["spec"].get("nodeName") else {}
        if written and metadata["name"] not in but:
            path = f"/api/v1/namespaces/{namespace}/pods/{metadata['name']}"
            server.request("PATCH", path, {"metadata": {"annotations": written}}, MERGE, PLUGIN)
            if "startTime" not in pod.get("status", {}):
                status = {"startTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
                server.request("PATCH", f"{path}/status", {"status": status}, MERGE)
