"""`deviceshare drain card` in a live cluster with `--server`: what it asks with which token, and what it learns.

API server and metrics service are recorded answers behind HTTP.
"""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from deviceshare_cli.main import app
from support.card_objects import node
from typer.testing import CliRunner, Result


class Server:
    """Answers requests by their path; ``tokens``: those that it got."""

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        self.tokens: set[str] = set()
        self.url = ""

    @contextmanager
    def running(self) -> Iterator["Server"]:
        own = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                own.tokens.add((self.headers["Authorization"] or "").removeprefix("Bearer "))
                answer = own.answers.get(self.path.partition("?")[0])
                self.send_response(404 if answer is None else 200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(json.dumps(answer or {"error": "not found"}).encode())

            def log_message(self, *_: Any) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{server.server_port}"
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield self
        server.shutdown()
        thread.join()
        server.server_close()


class Live:
    """A live cluster with the node ``a`` of one card, and the metrics service of a system."""

    def __init__(self, directory: Path, api: Server, metrics: Server) -> None:
        self.directory, self.api, self.metrics = directory, api, metrics
        api.answers["/api/v1/nodes/a"] = node("a")
        self.pods()
        card = {
            "node": "a", "id": "a-0", "index": 0, "type": "T4", "mode": "hami-core", "healthy": True,
            "memory_total": 1, "memory_used": 0, "cores_total": 100, "cores_used": 0, "slots_total": 1,
            "slots_used": 0, "pods": [],
        }  # fmt: skip
        metrics.answers["/api/v1/devices"] = {"items": [card]}
        metrics.answers["/api/v1/pods"] = {"items": []}
        metrics.answers["/api/v1/status"] = {
            "pods": {}, "claims": {}, "nodes": {}, "open_claims": 0, "undecodable": 0, "problems": 0,
            "synced": True, "seconds_since_change": 1.0,
        }  # fmt: skip

    def pods(self, *pods: dict[str, Any]) -> None:
        listed = {"kind": "PodList", "apiVersion": "v1", "metadata": {"resourceVersion": "1"}, "items": list(pods)}
        self.api.answers["/api/v1/pods"] = listed

    def kubeconfig(self, name: str) -> str:
        """Write a kubeconfig of the contexts ``one`` (the current one) and ``two``; the token of one is NAME-one."""
        contexts = ("one", "two")
        content = {
            "current-context": "one",
            "contexts": [{"name": each, "context": {"cluster": "c", "user": each}} for each in contexts],
            "clusters": [{"name": "c", "cluster": {"server": self.api.url}}],
            "users": [{"name": each, "user": {"token": f"{name}-{each}"}} for each in contexts],
        }
        path = self.directory / name
        path.write_text(json.dumps(content))
        return str(path)

    def drain(self, *options: str, **environment: str) -> Result:
        env = {"KUBECONFIG": self.kubeconfig("default"), "DEVICESHARE_SERVER": None, "DEVICESHARE_TOKEN": None}
        arguments = ["drain", "card", "a/a-0", "--dry-run", *options]
        return CliRunner().invoke(app, arguments, env=env | environment)


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    with ExitStack() as stack:
        yield Live(tmp_path, *(stack.enter_context(Server().running()) for _ in range(2)))


@pytest.mark.parametrize(
    ("options", "token"),
    [
        (["--live"], "default-one"),
        (["--context", "two"], "default-two"),
        (["--kubeconfig", "prod"], "prod-one"),
        (["--kubeconfig", "prod", "--context", "two"], "prod-two"),
    ],
)
def test_the_metrics_service_gets_the_token_of_the_chosen_context(live: Live, options: list[str], token: str) -> None:
    options = [live.kubeconfig(each) if each == "prod" else each for each in options]
    done = live.drain(*options, "--server", live.metrics.url)
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    assert (live.api.tokens, live.metrics.tokens) == ({token}, {token})


def test_a_system_that_has_not_read_the_cluster_leaves_a_doubt(live: Live) -> None:
    live.metrics.answers["/api/v1/status"]["synced"] = False
    done = live.drain("--live", "--server", live.metrics.url)
    assert done.exit_code == 1
    doubt = "pods whose annotations were changed may be missed: the running system has not read the whole cluster yet"
    assert f"error: {doubt}" in done.stderr.splitlines()
    assert "not drained" in done.stderr


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--server", "http://127.0.0.1:1"], "--server goes with --live"),
        (["--token", "secret"], "--token goes with --server"),
        (["--live", "--token", "secret"], "--token goes with --server"),
    ],
)
def test_options_without_an_effect_are_errors(live: Live, options: list[str], problem: str) -> None:
    done = live.drain(*options)
    assert (done.exit_code, problem in done.stderr) == (2, True), done.output
    assert live.api.tokens == set()


def test_variables_without_an_effect_are_noted(live: Live) -> None:
    done = live.drain(DEVICESHARE_SERVER=live.metrics.url, DEVICESHARE_TOKEN="secret", DEVICESHARE_RUN_DIR="/nowhere")
    assert done.stderr.splitlines() == [
        "note: DEVICESHARE_SERVER is not used without --live",
        "note: DEVICESHARE_TOKEN is not used without --server",
    ]
    assert live.metrics.tokens == set()
    assert live.drain("--live", DEVICESHARE_SERVER=live.metrics.url, DEVICESHARE_TOKEN="secret").stderr == ""
    assert live.metrics.tokens == {"secret"}
