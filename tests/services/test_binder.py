"""The binder as a whole: a local cluster and the bus on a real nats-server, the ledger written by the test."""

import asyncio

import msgspec
from deviceshare.model import (
    Claim,
    ContainerGrant,
    ContainerRequest,
    DeviceGrant,
    Explanation,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    PodFact,
    PodRequest,
    PodUid,
)
from deviceshare_binder.shell import main
from deviceshare_bus.connection import connect
from deviceshare_bus.messages import decode_events, decode_outcomes, encode
from deviceshare_bus.publisher import Publisher, Write
from deviceshare_bus.setup import make_streams
from deviceshare_bus.subjects import event, explain, fact, ledger, outcome
from deviceshare_cluster.local import LocalCluster
from nats.js.errors import NotFoundError
from support.service import at_work


class World:
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
        await self.say(fact("node", "n1"), NodeFact(name="n1"))
        return self

    async def __aexit__(self, *error):
        await self.connection.close()
        await self.cluster.__aexit__(*error)

    async def say(self, subject, message):
        await self.publisher.write(Write(subject, encode(message)))

    async def pod(self, name, gates=()):
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
        ask = PodRequest(containers=(ContainerRequest("main", ()),))
        await self.say(fact("pod", uid), PodFact(uid=PodUid(uid), namespace="default", name=name, gates=gates, ask=ask))

    def claim(self, name, **fields):
        return Claim(id=f"claim-{name}", uid=self.pods.get(name, "nobody"), namespace="default", name=name, **fields)

    async def claims(self, *claims, node="n1"):
        await self.say(ledger(node), NodeLedger(node=node, claims=claims))

    async def outcomes(self, node="n1"):
        try:
            found = await self.connection.jetstream.get_last_msg("OUTCOME", outcome(node))
            return {one.claim: one.state for one in decode_outcomes(found.data).outcomes}
        except (NotFoundError, msgspec.DecodeError):
            return {}

    def binder(self):
        options = {"cluster": f"local:{self.url}", "reports_per_second": 200.0, "plugin_patience": 60.0}
        return at_work("binder", main, self.url, **options)


async def until(true):
    async with asyncio.timeout(20):
        while not await true():
            await asyncio.sleep(0.01)


async def test_claims_are_bound_once_whatever_is_killed(nats_server):
    async with World(nats_server.url) as world:
        grant = ContainerGrant("main", 0, "gpu-share", (DeviceGrant("3", 3, 1024, 0),))
        for name in "abc":
            await world.pod(name)
        await world.claims(world.claim("a", grants=(grant,)), world.claim("b"))
        expected = {"claim-a": "bound", "claim-b": "bound"}

        async def outcomes_stand():
            return await world.outcomes() == expected

        async with world.binder() as context:
            await until(outcomes_stand)
            pod = await world.cluster.get("Pod", "default", "a")
            assert pod["spec"]["nodeName"] == "n1"
            assert pod["metadata"]["annotations"]["volcano.sh/gpu-index"] == "3"
            await nats_server.restart()
            await until(lambda: asyncio.sleep(0, world.connection.connected))
            expected["claim-c"] = "bound"
            await world.claims(world.claim("a", grants=(grant,)), world.claim("b"), world.claim("c"))
            await until(outcomes_stand)
            await until(lambda: asyncio.sleep(0, context.open_work() == 0))
        said = {(one["reason"], one["message"], one["count"]) for one in await world.cluster.list("Event")}
        assert said == {("Scheduled", f"Successfully assigned default/{name} to n1", 1) for name in "abc"}
        # The outcomes are lost, as if the binder had died before it wrote them: pods stay where they are.
        await world.say(outcome("n1"), NodeOutcomes(node="n1"))
        async with world.binder():
            await until(outcomes_stand)


async def test_what_cannot_be_decoded_is_put_aside(nats_url):
    async with World(nats_url) as world:
        await world.pod("a")
        for subject in (ledger("n2"), outcome("n1"), fact("pod", "x"), explain("x")):
            await world.publisher.write(Write(subject, b"\xc1"))
        await world.claims(world.claim("a"))

        async def bound():
            return await world.outcomes() == {"claim-a": "bound"}

        async with world.binder() as context:
            await until(bound)
            await until(lambda: asyncio.sleep(0, context.ready))
            await context.events.flush()
            await until(lambda: asyncio.sleep(0, not context.connection.requests.in_flight))
            found = await world.connection.jetstream.get_last_msg("EVENT", event("binder"))
        streams = {one.stream for one in decode_events(found.data).undecodable}
        assert streams == {"LEDGER", "OUTCOME", "CLUSTER", "EXPLAIN"}


async def test_a_pod_that_waits_is_told_why_once_for_each_message(nats_url):
    async with World(nats_url) as world:
        await world.pod("a")
        await world.pod("gated", gates=("example.com/wait",))

        async def explained(name, message):
            uid = world.pods[name]
            one = Explanation(uid=uid, namespace="default", name=name, at=1.0, decision="pending", message=message)
            await world.say(explain(uid), one)

        async def condition(name):
            pod = await world.cluster.get("Pod", "default", name)
            return next((one for one in pod["status"].get("conditions", ()) if one["type"] == "PodScheduled"), {})

        async with world.binder() as context:
            await until(lambda: asyncio.sleep(0, context.ready and not context.open_work()))
            for _ in range(3):
                await explained("a", "0/1 nodes are unavailable")
            await explained("gated", "the pod has scheduling gates")

            async def told():
                return [(await condition(name)).get("reason") for name in ("a", "gated")] == [
                    "Unschedulable",
                    "SchedulingGated",
                ]

            await until(told)
            await until(lambda: asyncio.sleep(0, not context.open_work()))
            assert (await condition("a"))["message"] == "0/1 nodes are unavailable"
            events = {one["involvedObject"]["name"]: one for one in await world.cluster.list("Event")}
            assert (events["a"]["reason"], events["a"]["type"], events["a"]["count"]) == (
                "FailedScheduling",
                "Warning",
                1,
            )
            await world.claims(world.claim("a"))

            async def scheduled():
                return (await condition("a")).get("status") == "True"

            await until(scheduled)
