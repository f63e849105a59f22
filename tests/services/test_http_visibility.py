"""A user of some namespaces gets no byte of the name of another namespace's pod from any route of the real server."""

import asyncio
import json
import random
import re
import threading
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession, web
from deviceshare.model import (
    CARD_MISSING,
    Card,
    Claim,
    ContainerGrant,
    DeviceGrant,
    Explanation,
    NearNode,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    OtherPodFact,
    Outcome,
    PodFact,
    PodGroupFact,
    Problem,
    QueueFact,
    Refusal,
    Synced,
)
from deviceshare_bus.cores.core import Unreadable
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import Events, Step
from deviceshare_bus.messages.subjects import Stream
from deviceshare_bus.web import Access, HttpSettings, Reviews, User
from deviceshare_metrics import change_stream, queries
from deviceshare_metrics.core import MetricsCore
from deviceshare_metrics.core.visibility import HIDDEN, Visibility
from deviceshare_metrics.listing import LISTINGS
from deviceshare_metrics.server import Server, serve
from support.metrics import NOW, catch_up, read

CARDS = tuple(
    Card(f"GPU-{uuid.UUID(int=number)}", number, 10, 11178, 100, "T4", True, "hami-core") for number in (0, 1)
)
TOKENS = {"of-alice": ("ours",), "of-both": ("ours", "theirs"), "of-all": None, "of-stranger": ()}


class NamespaceReviewer:
    """Accepts :data:`TOKENS`, whose users may list the pods of these namespaces (None: of all)."""

    async def user(self, token: str) -> User | None:
        return User(token) if token in TOKENS else None

    async def may_list_pods(self, user: User, namespace: str) -> bool:
        allowed = TOKENS[user.name]
        return allowed is None or namespace in allowed

    async def may_get(self, user: User, path: str) -> bool:
        return TOKENS[user.name] is None and path == "/metrics"


def cluster(seed: int) -> tuple[MetricsCore, set[str], set[str]]:
    """Return a core with the pods of two namespaces on shared nodes, and the names of each; every text names a pod."""
    chance = random.Random(seed)
    names: dict[str, list[str]] = {"ours": [], "theirs": []}
    messages: list[tuple[str, Any]] = [(subjects.SYNCED, Synced())]
    claims: dict[str, list[Claim]] = {"n1": [], "n2": []}
    outcomes: dict[str, list[Outcome]] = {"n1": [], "n2": []}
    gossip: list[str] = []  # references to pods and groups of both

    def text() -> str:
        form = chance.choice(("waits for pod {}: 0/2 nodes", "'{}' is not valid", "pod group {}, behind {}."))
        return form.format(chance.choice(gossip), chance.choice(gossip))

    for number in range(24):
        namespace = chance.choice(("ours", "theirs"))
        name = f"{'vole' if namespace == 'ours' else 'zebra'}-{number}{chance.choice(('', '.x', '-y'))}"
        names[namespace].append(name)
        uid = str(uuid.UUID(int=chance.getrandbits(128)))
        ref = f"{namespace}/{name}"
        gossip += [ref, ref, f"{namespace}/{name}-gang", uid]

        node = chance.choice(("n1", "n2"))
        grant = ContainerGrant("main", 0, "hami-core", (DeviceGrant(chance.choice(CARDS).id, 0, 3000, 30),))
        group = chance.choice((f"pod/{uid}", f"{namespace}/{name}-gang"))
        problems = (Problem(f"Pod {ref}", CARD_MISSING, text(), ""), Problem(f"Pod {ref}", "spec", text(), text()))
        pod = PodFact(
            uid=uid, namespace=namespace, name=name, scheduler="volcano", created=1.0, group=group, queue="q",
            owner=f"Job/{name}-job", problems=problems[: chance.randrange(3)],
        )  # fmt: skip
        refusal = Refusal(code="X", text=text(), nodes=1)
        explanation = Explanation(
            uid=uid, namespace=namespace, name=name, at=1.0, decision="pending", message=text(), refusals=(refusal,),
            first_failing=(refusal,), why=(text(),), gang=text(), gang_reason=text(), caveats=(text(),),
            closest=(NearNode(node="n1", refusals=(refusal,)),), kept_for=(chance.choice(gossip),),
        )  # fmt: skip
        match chance.randrange(5):
            case 0:  # waits
                messages += [(subjects.fact("pod", uid), pod), (subjects.explain(uid), explanation)]
            case 1:  # bound
                bound = msgspec.structs.replace(pod, node=node, held=(grant,))
                messages += [(subjects.fact("pod", uid), bound)]
            case 2:  # claimed
                messages += [(subjects.fact("pod", uid), pod)]
                claim_id = f"c{number}"
                claims[node].append(
                    Claim(id=claim_id, uid=uid, namespace=namespace, name=name, grants=(grant,), group=pod.group)
                )
                state = chance.choice(("bound", "refused"))
                outcomes[node].append(Outcome(claim_id, uid, state, text()))
            case 3:  # gone
                messages += [(subjects.explain(uid), explanation)]
            case 4:  # of another scheduler
                other = OtherPodFact(uid=uid, namespace=namespace, name=name, scheduler="other", served=("volcano",))
                messages += [(subjects.fact("otherpod", uid), other)]
        key = f"{namespace}/{name}-gang"
        messages += [(subjects.fact("podgroup", key), PodGroupFact(key=key, queue="q", problems=(problems[1],)))]
        steps = (Step(uid, ref, "seen", 1.0), Step(uid, ref, "pending", 2.0, "n1", text()))
        messages += [(subjects.event("placement"), Events(service="placement", instance="p", at=1.0, steps=steps))]
    wrong = tuple(Problem("Node n1", "metadata.annotations", ref, f"not {ref}") for ref in gossip)
    messages += [
        (subjects.fact("node", name), NodeFact(name=name, cards=CARDS, ready=True, problems=wrong)) for name in claims
    ]
    messages += [(subjects.fact("queue", "q"), QueueFact(name="q", problems=wrong))]
    messages += [(subjects.ledger(node), NodeLedger(node=node, claims=tuple(found))) for node, found in claims.items()]
    messages += [
        (subjects.outcome(node), NodeOutcomes(node=node, outcomes=tuple(found))) for node, found in outcomes.items()
    ]
    core = read(*messages)
    for ref in gossip:
        core.handle(Unreadable(Stream.LEDGER, subjects.ledger("n1"), 1, f"claim of {ref}", False), NOW)
    catch_up(core)
    return core, set(names["ours"]), set(names["theirs"])


@asynccontextmanager
async def served(core: MetricsCore) -> AsyncIterator[tuple[Server, web.Application, ClientSession]]:
    server = Server(core, lambda: True, access=Access(HttpSettings("kubernetes"), Reviews(NamespaceReviewer())))
    app = server.app()
    running = await serve(app, "127.0.0.1", 0)
    await server.dashboard._history.record(1.0, await server.dashboard._rows.all(), 1, 1)
    try:
        async with ClientSession(f"http://127.0.0.1:{running.addresses[0][1]}") as session:
            yield server, app, session
    finally:
        await running.cleanup()


def paths(app: web.Application, pods: set[str]) -> set[str]:
    """Return addresses of all routes, with every value of each variable part, every filter and every page size."""
    found = set()
    for resource in app.router.resources():
        path = resource.canonical
        if "{namespace}" in path:
            found |= {path.format(namespace=ns, name=name) for ns in ("ours", "theirs", "default") for name in pods}
        elif "{kind}" in path:
            for kind, listing in LISTINGS.items():
                found |= {path.format(kind=kind), path.format(kind=kind) + "?limit=3"}
                for name in listing.filters:
                    values = {"namespace": ("ours", "theirs"), "queue": ("q",), "pod": sorted(pods)[:4]}.get(
                        name, ("n1",)
                    )
                    found |= {f"{path.format(kind=kind)}?{name}={value}" for value in values}
        elif "nodes" in path:
            found |= {path.format(name=name) for name in ("n1", "n2", *sorted(pods)[:2])}
        elif "{at}" in path:
            found |= {path.format(at="1")}
        elif "{" in path:
            found |= {path.format(name=name) for name in ("main.js", "absent")}
        else:
            found |= {path, f"{path}?since=1-1"}
    return found


async def answers(session: ClientSession, wanted: set[str], token: str) -> dict[str, tuple[int, bytes]]:
    async def one(path: str) -> tuple[str, tuple[int, bytes]]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        async with session.get(path, headers=headers, allow_redirects=False) as answer:
            if answer.content_type == "text/event-stream":
                text = b""
                with suppress(TimeoutError):
                    async with asyncio.timeout(0.4):
                        while part := await answer.content.readany():
                            text += part
                return path, (answer.status, text)
            return path, (answer.status, repr(answer.headers).encode() + b"\0" + await answer.read())

    return dict(await asyncio.gather(*[one(path) for path in sorted(wanted)]))


@pytest.mark.parametrize("seed", range(3))
async def test_no_answer_has_a_byte_of_the_name_of_a_hidden_pod(seed: int) -> None:
    core, ours, theirs = cluster(seed)
    async with served(core) as (_, app, session):
        wanted = paths(app, ours | theirs)
        assert {path.partition("?")[0] for path in wanted} >= {"/metrics", "/api/v1/changes", "/api/v1/pods", "/"}
        everything = await answers(session, wanted, "of-all")
        assert not [path for path, (status, _) in everything.items() if status >= 500]
        shown = b"".join(body for _, body in everything.values())
        assert all(name.encode() in shown for name in ours | theirs), "the data have what is to be hidden"

        of_alice = await answers(session, wanted, "of-alice")
        for path, (status, body) in of_alice.items():
            assert status in (200, 400, 403, 404, 405), (path, body)
            # The request itself names a pod: the answer to an unknown one repeats the name.
            if not ("theirs" in path or any(name in path for name in theirs)):
                assert not re.search(rb"zebra", body), (path, re.search(rb".{80}zebra.{40}", body, re.DOTALL))
                assert not any(uid in body for uid in uids_of(core, "theirs")), path
        assert of_alice["/metrics"][0] == 403
        for name in theirs:
            body = of_alice[f"/api/v1/pods/theirs/{name}/explain"]
            assert body[0] == 404
            assert body[1].endswith(b'not found: no such pod exists or is remembered"}'), "as of one that never existed"
        pods = json.loads(of_alice["/api/v1/pods"][1].partition(b"\0")[2])
        assert {pod["name"] for pod in pods["items"]} <= ours
        assert pods["items"]

        for token, refused in (("of-stranger", 403), ("", 401), ("of-mallory", 401)):
            for path, (status, body) in (await answers(session, wanted, token)).items():
                public = (
                    path.startswith(("/healthz", "/readyz", "/login", "/ui/", "/logout"))
                    or path.partition("?")[0] == "/"
                )
                assert public or status == refused, (token, path, status)
                assert b"zebra" not in body or "zebra" in path
                assert b"vole" not in body or "vole" in path
        both = await answers(session, {"/api/v1/pods", "/api/v1/nodes/n1"}, "of-both")
        assert b"zebra" in both["/api/v1/pods"][1]


def uids_of(core: MetricsCore, namespace: str) -> set[bytes]:
    return {pod.uid.encode() for pod in core.store.pods.values() if pod.namespace == namespace}


async def test_counts_are_those_of_visible_pods_and_usage_is_that_of_all() -> None:
    core, ours, _ = cluster(1)
    async with served(core) as (server, _, _):
        visibility = Visibility(frozenset({"ours"}))
        shown, whole = await server._queries.status(visibility), await server._queries.status()
        assert (
            sum(shown.pods.values()) == len(await server._queries.items("pods", visibility)) < sum(whole.pods.values())
        )
        assert shown.nodes == whole.nodes
        (some, every) = (await server._queries.items("devices", visibility), await server._queries.items("devices"))
        assert [device.memory_used for device in some] == [device.memory_used for device in every]  # type: ignore[attr-defined]
        assert {pod for device in some for pod in device.pods} <= {f"ours/{name}" for name in ours}  # type: ignore[attr-defined]


async def test_one_user_does_not_take_all_streams_of_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_stream, "MAX_OF_USER", 2)
    core, _, _ = cluster(1)
    async with served(core) as (_, _, session), AsyncExitStack() as stack:

        async def opened(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get("/api/v1/cards", headers=headers) as cards:
                query = {"since": (await cards.json())["position"]}
            answer = await stack.enter_async_context(session.get("/api/v1/changes", headers=headers, params=query))
            return answer.status

        assert [await opened("of-alice") for _ in range(4)] == [200, 200, 503, 503]
        assert [await opened("of-both"), await opened("of-all")] == [200, 200]


async def test_lists_are_filtered_once_and_not_by_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    core, ours, _ = cluster(1)
    threads: list[threading.Thread] = []
    filtered = queries.visible
    monkeypatch.setattr(
        queries, "visible", lambda *given: threads.append(threading.current_thread()) or filtered(*given)
    )
    for kind in LISTINGS:
        threads.clear()
        items = await queries.Queries(core).items(kind, Visibility(frozenset({"ours"})))
        assert len(threads) == 1, kind
        assert threads[0] is not threading.main_thread(), kind
        if kind == "waiting":
            shown = {name for group in items for name in group.first}  # type: ignore[attr-defined]
            assert shown <= ours
            assert shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("waits for pod theirs/a-1.", f"waits for pod {HIDDEN}."),
        ("0/3 nodes: 3 Insufficient nvidia.com/gpu", "0/3 nodes: 3 Insufficient nvidia.com/gpu"),
        ("'theirs/a' and ours/b, theirs/c.d-e", f"'{HIDDEN}' and ours/b, {HIDDEN}"),
        ("claim of 0191d4c6-51a8-7f40-8b1e-5d8f1c1d2e3f", f"claim of {HIDDEN}"),
        ("card GPU-0191d4c6-51a8-7f40-8b1e-5d8f1c1d2e3f", "card GPU-0191d4c6-51a8-7f40-8b1e-5d8f1c1d2e3f"),
        ("scheduling.volcano.sh/group-name of ours/b", "scheduling.volcano.sh/group-name of ours/b"),
        ("", ""),
    ],
)
def test_texts_do_not_name_what_is_hidden(text: str, shown: str) -> None:
    assert Visibility(frozenset({"ours"})).text(text) == shown
    assert Visibility().text(text) == text
