"""HTTP: ``/metrics``, the JSON API, the page and the health checks over one view."""

import asyncio
import copy
from collections.abc import Callable

import msgspec
from aiohttp import web
from deviceshare.model import ConfigError
from deviceshare_bus.tracing import trace_id

from deviceshare_metrics import api
from deviceshare_metrics.exposition import expose
from deviceshare_metrics.page import HEADERS, page
from deviceshare_metrics.snapshot import Snapshot, build_snapshot
from deviceshare_metrics.state_store import StateStore
from deviceshare_metrics.states import count


class Site:
    """Answers questions about a view.

    Args:
        view: what has been read; others go on filling it.
        connected: whether the bus can be reached.
        ready: whether everything that stood on the bus has been read.
        quiet: seconds since the last change.
    """

    def __init__(
        self, store: StateStore, connected: Callable[[], bool], ready: Callable[[], bool], quiet: Callable[[], float]
    ) -> None:
        self._store = store
        self._connected = connected
        self._ready = ready
        self._quiet = quiet
        self._drawn: tuple[int, Snapshot] | None = None

    @property
    def snapshot(self) -> Snapshot:
        """The picture of the view as it is now; drawn once for each state of the view."""
        if self._drawn is None or self._drawn[0] != self._store.version:
            self._drawn = (self._store.version, build_snapshot(self._store))
        return self._drawn[1]

    def status(self) -> api.ClusterStatus:
        """Return the counts."""
        nodes, pods, claims = count(self._store)
        return api.ClusterStatus(
            pods={state: pods[state] for state in api.POD_STATES},
            claims={state: claims[state] for state in api.CLAIM_STATES},
            nodes={state: nodes[state] for state in api.NODE_STATES},
            open_claims=claims["open"] + claims["withdrawing"],
            undecodable=self._store.tallies.undecodable.total(),
            problems=sum(1 for _ in self._store.problems()),
            synced=self._store.synced,
            seconds_since_change=round(self._quiet(), 3),
        )

    def explain(self, namespace: str, name: str) -> api.PodExplanation | None:
        """Return what is known of a pod, also of one that is gone; None where nothing is.

        Of several pods of one name, one after the other, the one that exists counts, else the last.
        """
        pods = [pod for pod in self.snapshot.pods if (pod.namespace, pod.name) == (namespace, name)]
        pod = pods[-1] if pods else None
        uid = pod.uid if pod is not None else self._last_uid(namespace, name)
        if uid is None:
            return None
        history = self._store.histories.get(uid)
        steps = sorted(history.steps, key=lambda entry: entry[1].at) if history is not None else []
        return api.PodExplanation(
            pod=pod,
            explanation=self._store.explanations.get(uid),
            steps=tuple(
                api.PodStep(time=step.at, service=service, step=step.name, node=step.node, message=step.message)
                for service, step in steps
            ),
            trace_id=f"{trace_id(uid):032x}",
        )

    def _last_uid(self, namespace: str, name: str) -> str | None:
        decided = [
            (explanation.at, uid)
            for uid, explanation in self._store.explanations.items()
            if (explanation.namespace, explanation.name) == (namespace, name)
        ]
        stepped = [
            (history.last, uid)
            for uid, history in self._store.histories.items()
            if history.steps[-1][1].pod == f"{namespace}/{name}"
        ]
        return max(decided + stepped, default=(0.0, None))[1]

    def app(self) -> web.Application:
        """Return the routes."""
        app = web.Application()
        app.add_routes(
            [
                web.get("/", self._get_page),
                web.get("/metrics", self._get_metrics),
                web.get("/healthz", self._get_healthz),
                web.get("/readyz", self._get_readyz),
                web.get("/api/v1/status", self._get_status),
                web.get("/api/v1/{kind:nodes|devices|pods|claims}", self._get_items),
                web.get("/api/v1/pods/{namespace}/{name}/explain", self._get_explain),
            ]
        )
        return app

    async def _get_page(self, _: web.Request) -> web.Response:
        return web.Response(text=page(self.snapshot, self.status()), content_type="text/html", headers=HEADERS)

    async def _get_metrics(self, request: web.Request) -> web.Response:
        # In a thread: of a large cluster it takes seconds, and the streams go on.
        tallies = copy.deepcopy(self._store.tallies)
        body, content_type = await asyncio.to_thread(expose, self.snapshot, tallies, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _get_healthz(self, _: web.Request) -> web.Response:
        alive = self._connected()
        return web.Response(text="ok" if alive else "not connected to the bus", status=200 if alive else 503)

    async def _get_readyz(self, _: web.Request) -> web.Response:
        ready = self._ready()
        return web.Response(text="ok" if ready else "still reading the bus", status=200 if ready else 503)

    async def _get_status(self, _: web.Request) -> web.Response:
        return _json(self.status())

    async def _get_items(self, request: web.Request) -> web.Response:
        items = getattr(self.snapshot, request.match_info["kind"])
        return web.Response(body=await asyncio.to_thread(_encode_items, items), content_type="application/json")

    async def _get_explain(self, request: web.Request) -> web.Response:
        namespace, name = request.match_info["namespace"], request.match_info["name"]
        explanation = self.explain(namespace, name)
        if explanation is None:
            known = "no such pod exists, and nothing is remembered of one" if self._ready() else "still reading the bus"
            return _json(api.ErrorAnswer(error=f"pod {namespace}/{name} not found: {known}"), status=404)
        return _json(explanation)


async def serve(app: web.Application, address: str, port: int) -> web.AppRunner:
    """Serve until the runner is cleaned up.

    Raises:
        ConfigError: the address cannot be taken.
    """
    runner = web.AppRunner(app, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, address, port).start()
    except OSError as error:
        await runner.cleanup()
        raise ConfigError(
            "metrics", "--metrics-port", f"{address}:{port}", f"an address that can be listened on ({error.strerror})"
        ) from error
    return runner


def _encode_items(items: tuple[msgspec.Struct, ...]) -> bytes:
    return msgspec.json.encode(api.Items(items))


def _json(answer: msgspec.Struct, status: int = 200) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json", status=status)
