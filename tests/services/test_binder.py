"""The binder as a whole: a local cluster and the bus on a real nats-server, the ledger written by the test."""

import msgspec
import pytest
from deviceshare.model import (
    Claim,
    ConfigFact,
    ContainerGrant,
    ContainerRequest,
    DeviceGrant,
    Eviction,
    Explanation,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    PodFact,
    PodGroupFact,
    PodRequest,
    PodUid,
)
from deviceshare_binder.core import build_core
from deviceshare_binder.core.commands import ReadPod
from deviceshare_binder.core.events import BindAnswered, PodRead
from deviceshare_binder.service import ClusterSide, main
from deviceshare_bus.cores.core import Now
from deviceshare_bus.messages.codec import decode_events, decode_outcomes, encode
from deviceshare_bus.messages.subjects import event, explain, fact, ledger, outcome
from deviceshare_bus.streams.creation import make_streams
from deviceshare_bus.streams.publisher import Publisher, Write
from deviceshare_bus.wire.connection import connect
from deviceshare_cluster.interface import BindState
from deviceshare_localcluster import LocalCluster
from deviceshare_localcluster.kinds import Key
from nats.js.errors import NotFoundError
from support.builders import share_cards
from support.service import at_work, fail_first_write, replayed_elsewhere
from support.waiting import until

ENDED = {"status": {"phase": "Succeeded"}}
CONFIGURATION = """
actions: allocate
tiers:
- plugins:
  - name: deviceshare
    arguments: {deviceshare.GPUSharingEnable: true}
"""


class Scene:
    """A cluster, the bus, and the writers of facts, ledgers and explanations."""

    def __init__(self, url):
        self.url = url
        self.cluster = LocalCluster(url)
        self.pods = {}

    async def __aenter__(self):
        await self.cluster.__aenter__()
        await self.cluster.setup()
        self.connection = await connect(self.url, "test")
        await make_streams(self.connection)
        self.publisher = Publisher(self.connection)
        await self.publish(fact("node", "n1"), NodeFact(name="n1", cards=share_cards(4)))
        return self

    async def __aexit__(self, *error):
        await self.connection.close()
        await self.cluster.__aexit__(*error)

    async def publish(self, subject, message):
        await self.publisher.write(Write(subject, encode(message)))

    async def pod(self, name, gates=(), memory=0):
        await self.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"schedulerName": "volcano", "containers": [{"name": "main", "image": "busybox"}]},
            }
        )
        uid = (await self.cluster.get("Pod", "default", name))["metadata"]["uid"]
        self.pods[name] = uid
        amounts = (("volcano.sh/gpu-memory", memory),) if memory else ()
        ask = PodRequest(containers=(ContainerRequest("main", amounts),))
        await self.publish(
            fact("pod", uid), PodFact(uid=PodUid(uid), namespace="default", name=name, gates=gates, ask=ask)
        )

    def claim(self, name, **fields):
        return Claim(id=f"claim-{name}", uid=self.pods.get(name, "unknown"), namespace="default", name=name, **fields)

    async def claims(self, *claims, node="n1"):
        await self.publish(ledger(node), NodeLedger(node=node, claims=claims))

    async def outcomes(self, node="n1"):
        try:
            found = await self.connection.jetstream.get_last_msg("OUTCOME", outcome(node))
            return {one.claim: one.state for one in decode_outcomes(found.data).outcomes}
        except (NotFoundError, msgspec.DecodeError):
            return {}

    def binder(self):
        options = {
            "cluster": f"local:{self.url}",
            "reports_per_second": 200.0,
            "plugin_patience": 60.0,
            "dry_run": False,
        }
        return at_work("binder", main, self.url, **options)


async def test_claims_are_bound_once_whatever_is_killed(nats_server):
    async with Scene(nats_server.url) as scene:
        grant = ContainerGrant("main", 0, "gpu-share", (DeviceGrant("3", 3, 1024, 0),))
        await scene.publish(fact("config", "scheduler"), ConfigFact(name="scheduler", text=CONFIGURATION))
        for name, memory in (("a", 1024), ("b", 0), ("c", 0)):
            await scene.pod(name, memory=memory)
        await scene.claims(scene.claim("a", grants=(grant,)), scene.claim("b"))
        expected = {"claim-a": "bound", "claim-b": "bound"}

        async def outcomes_stand():
            return await scene.outcomes() == expected

        async with scene.binder() as context:
            await until(outcomes_stand)
            pod = await scene.cluster.get("Pod", "default", "a")
            assert pod["spec"]["nodeName"] == "n1"
            assert pod["metadata"]["annotations"]["volcano.sh/gpu-index"] == "3"
            await nats_server.restart()
            await until(lambda: scene.connection.connected)
            expected["claim-c"] = "bound"
            await scene.claims(scene.claim("a", grants=(grant,)), scene.claim("b"), scene.claim("c"))
            await until(outcomes_stand)
            await until(lambda: context.open_work() == 0)
        said = {(one["reason"], one["message"], one["count"]) for one in await scene.cluster.list("Event")}
        assert said == {("Scheduled", f"Successfully assigned default/{name} to n1", 1) for name in "abc"}
        # The outcomes are lost, as if the binder had died before it wrote them: pods stay where they are.
        await scene.publish(outcome("n1"), NodeOutcomes(node="n1"))
        async with scene.binder():
            await until(outcomes_stand)


async def test_undecodable_messages_are_put_in_quarantine(nats_url):
    async with Scene(nats_url) as scene:
        await scene.pod("a")
        for subject in (ledger("n2"), outcome("n1"), fact("pod", "x"), explain("x")):
            await scene.publisher.write(Write(subject, b"\xc1"))
        await scene.claims(scene.claim("a"))

        async with scene.binder() as context:
            await until(scene.outcomes, lambda outcomes: outcomes == {"claim-a": "bound"})
            await until(lambda: context.ready)
            await context.events.flush()
            await context.publisher.drain()
            await until(lambda: not context.connection.requests.in_flight)
            found = await scene.connection.jetstream.get_last_msg("EVENT", event("binder"))
        streams = {one.stream for one in decode_events(found.data).undecodable}
        assert streams == {"LEDGER", "OUTCOME", "CLUSTER", "EXPLAIN"}


async def test_each_reason_why_a_pod_waits_is_reported_once(nats_url):
    async with Scene(nats_url) as scene:
        await scene.pod("a")
        await scene.pod("gated", gates=("example.com/wait",))

        async def explained(name, message):
            uid = scene.pods[name]
            one = Explanation(uid=uid, namespace="default", name=name, at=1.0, decision="pending", message=message)
            await scene.publish(explain(uid), one)

        async def condition(name):
            pod = await scene.cluster.get("Pod", "default", name)
            return next((one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"), {})

        async with scene.binder() as context:
            await until(lambda: context.ready and not context.open_work())
            for _ in range(3):
                await explained("a", "0/1 nodes are unavailable")
            await explained("gated", "the pod has scheduling gates")

            async def reported():
                return [(await condition(name)).get("reason") for name in ("a", "gated")] == [
                    "Unschedulable",
                    "SchedulingGated",
                ]

            await until(reported)
            await until(lambda: not context.open_work())
            assert (await condition("a"))["message"] == "0/1 nodes are unavailable"
            events = {one["involvedObject"]["name"]: one for one in await scene.cluster.list("Event")}
            assert (events["a"]["reason"], events["a"]["type"], events["a"]["count"]) == (
                "FailedScheduling",
                "Warning",
                1,
            )
            await scene.claims(scene.claim("a"))

            async def scheduled():
                return (await condition("a")).get("status") == "True"

            await until(scheduled)


async def test_a_core_log_can_be_replayed_in_another_process(nats_url, tmp_path, monkeypatch):
    monkeypatch.setenv("DEVICESHARE_CORE_LOG_DIR", str(tmp_path))
    async with Scene(nats_url) as scene:
        await scene.publish(fact("podgroup", "default.gang"), PodGroupFact(key="default/gang", uid="g"))
        names = [f"p{number}" for number in range(20)]
        for name in names:
            await scene.pod(name)
        claims = [scene.claim(name) for name in names]
        await scene.claims(*claims[:10])
        async with scene.binder() as context:
            await until(lambda: context.ready and not context.open_work())
            for name in names[15:]:
                why = Explanation(uid=scene.pods[name], namespace="default", name=name, at=1.0, decision="pending")
                await scene.publish(explain(why.uid), msgspec.structs.replace(why, message="0/1 nodes are unavailable"))
            await scene.claims(*claims[:15])
            await scene.publish(outcome("n1"), NodeOutcomes(node="n1"))  # the core's next write is a conflict
            await scene.claims(*claims)
            await until(lambda: not context.open_work())
            path = context.dump_core_log()
        assert set((await scene.outcomes()).values()) == {"bound"}
    assert await replayed_elsewhere(path, "deviceshare_binder.core") > 60


def test_an_exception_of_the_core_is_not_swallowed():
    core = build_core({"plugin_patience": 60.0, "reports_per_second": 200.0})
    with pytest.raises(KeyError):
        core.handle(BindAnswered("a claim without a task", BindState.BOUND), Now(0.0, 0.0))


@pytest.mark.parametrize("where", ["write", "bind"])
async def test_an_unexpected_error_of_a_write_or_a_call_ends_the_service(nats_url, monkeypatch, tmp_path, where):
    monkeypatch.setenv("DEVICESHARE_CORE_LOG_DIR", str(tmp_path))

    async def bind(*_):
        raise ZeroDivisionError

    if where == "write":
        fail_first_write(monkeypatch, ZeroDivisionError(), outcome("n1"))
    else:
        monkeypatch.setattr(LocalCluster, "bind", bind)
    async with Scene(nats_url) as scene:
        await scene.pod("a")
        await scene.claims(scene.claim("a"))
        async with scene.binder():
            # The service ends and writes its core log.
            await until(lambda: any(tmp_path.iterdir()))


async def test_pods_go_for_a_nominated_claim_whatever_is_killed(nats_server):
    async with Scene(nats_server.url) as scene:
        for name in ("small", "large"):
            await scene.pod(name)
        await scene.cluster.bind("default", "small", scene.pods["small"], "n1", {})
        victim = Eviction(
            uid=scene.pods["small"], namespace="default", name="small", claim="claim-large",
            preemptor="default/large", action="preempt",
        )  # fmt: skip
        nominated = scene.claim("large", waits_for=(victim.uid,))

        async def ledger_is(claim, *evictions):
            await scene.publish(ledger("n1"), NodeLedger(node="n1", claims=(claim,), evictions=evictions))

        async def nominated_node():
            found = await scene.cluster.get("Pod", "default", "large")
            return found["status"].get("nominatedNodeName") == "n1"

        async def gone():
            return await scene.cluster.get("Pod", "default", "small") is None

        async def bound():
            return (await scene.cluster.get("Pod", "default", "large"))["spec"].get("nodeName") == "n1"

        await ledger_is(nominated, victim)
        async with scene.binder():
            await until(scene.outcomes, lambda outcomes: outcomes == {"claim-large": "may go"})
            await until(nominated_node)
        assert not await gone(), "only the question was permitted"
        async with scene.binder():
            await ledger_is(nominated, msgspec.structs.replace(victim, go=True))
            await until(gone)
        assert not await bound(), "the claim has not opened"
        async with scene.binder():
            await ledger_is(msgspec.structs.replace(nominated, waits_for=()))
            await until(bound)
            await until(lambda: scene_has(scene, "Preempted"))
        said = {
            (one["reason"], one["involvedObject"]["name"], one["count"]) for one in await scene.cluster.list("Event")
        }
        assert said >= {("Nominated", "large", 1), ("Preempted", "small", 1)}


async def scene_has(scene, reason):
    return any(one["reason"] == reason for one in await scene.cluster.list("Event"))


async def test_a_pod_that_has_ended_is_read_as_gone(nats_server):
    """A roll-back of LEDGER may bring its claim back, and inventory does not publish a pod that it met ended."""
    async with Scene(nats_server.url) as scene:
        await scene.pod("a")
        side, command = ClusterSide(scene.cluster), ReadPod("claim-a", "default", "a", scene.pods["a"])
        await scene.cluster.bind("default", "a", scene.pods["a"], "n1", {})
        assert (await side.perform(command)).node == "n1"
        live = await scene.cluster.get("Pod", "default", "a")
        await scene.cluster.merge(Key("Pod", "default", "a"), live["metadata"]["resourceVersion"], ENDED)
        assert await side.perform(command) == PodRead("claim-a", None)
