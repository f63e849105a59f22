"""HTTPS_PROXY and NO_PROXY are honoured, and read once."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from deviceshare_cluster.interface import ClusterError
from deviceshare_cluster.kube.client import KubeClient


@pytest.mark.parametrize(("exempt", "asked"), [("", True), ("127.0.0.1", False)])
async def test_requests_go_through_the_proxy(tmp_path: Path, monkeypatch: Any, exempt: str, asked: bool) -> None:
    lines: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        lines.append(await reader.readline())
        writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    monkeypatch.setenv("NO_PROXY", exempt)
    for name in ("https_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(json.dumps(config))
    api = KubeClient(str(path))
    await api.start()
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:1")
    try:
        with pytest.raises(ClusterError):
            await api.request("GET", "/version")
    finally:
        await api.stop()
        server.close()
    assert lines == ([b"CONNECT 127.0.0.1:1 HTTP/1.1\r\n"] if asked else [])
