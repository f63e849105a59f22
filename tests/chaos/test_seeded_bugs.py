"""Bugs that are put into the product on purpose: the simulation finds each of them within a few histories."""

import asyncio
from contextlib import ExitStack
from itertools import count
from unittest.mock import patch

import pytest
from deviceshare.objects import held
from deviceshare_binder.core.outcomes import NodeClaims
from deviceshare_bus.conditional_writer import ConditionalWriter
from deviceshare_bus.follower import Follower
from deviceshare_bus.publisher import Publisher, PublishError, Unknown
from deviceshare_cli.chaos.kube_client import SimulatedKubeClient
from deviceshare_cli.chaos.scenario import Scenario, Step
from deviceshare_cli.chaos.simulation import draw, play
from deviceshare_inventory.core.fact_builder import FactBuilder
from deviceshare_placement.core import placement_core
from deviceshare_placement.core.ledgers import Ledgers
from msgspec.structs import replace

HISTORIES = 20


def skip_expected_sequence():
    original = ConditionalWriter.write

    def write(self, messages, context, *, ttl=None):
        made = original(self, messages, context, ttl=ttl)
        return replace(made, writes=tuple(replace(each, expected=None) for each in made.writes))

    return patch.object(ConditionalWriter, "write", write)


def reuse_an_id():
    numbers, original = count(), placement_core.claim

    def claim(claim_id, *arguments):
        return original(f"claim-{next(numbers) % 3}", *arguments)

    return patch.object(placement_core, "claim", claim)


def forget_a_release():
    return patch.object(Ledgers, "remove", lambda self, uid: None)


def split_a_gang():
    original = placement_core.select
    return patch.object(placement_core, "select", lambda decided: original(decided)._replace(together=set()))


def bind_twice_on_redelivery():
    return patch.object(NodeClaims, "has_outcome", lambda self, claim: False)


def accept_an_unsigned_annotation():
    return patch.object(held, "signed", lambda keys, uid, node, annotations: dict(annotations))


def late_binding():
    original = SimulatedKubeClient.request

    async def request(self, method, path, query=(), body=None, *more, **named):
        if path.endswith("/binding"):
            metadata = {name: value for name, value in body["metadata"].items() if name != "resourceVersion"}
            body = {**body, "metadata": metadata}
        return await original(self, method, path, query, body, *more, **named)

    return patch.object(SimulatedKubeClient, "request", request)


def ignore_roll_back():
    async def find_loss(self, state):
        self._received.sequence = min(self._received.sequence, state.last)
        return ""

    return patch.multiple(Follower, _find_loss=find_loss, _lacks=lambda self, state, subjects: False)


def retry_without_read_back():
    original = Publisher.send

    async def send(self, write, *, ttl=None):
        first = await original(self, write, ttl=ttl)
        answer = asyncio.get_running_loop().create_future()
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())

        async def again():
            try:
                try:
                    answer.set_result(await first)
                except Unknown:
                    answer.set_result(await (await original(self, write._replace(expected=None), ttl=ttl)))
            except PublishError as error:
                answer.set_exception(error)

        tasks.append(asyncio.create_task(again()))
        return answer

    tasks = []
    return patch.object(Publisher, "send", send)


def forget_a_tombstone():
    return patch.object(FactBuilder, "_delete_pod", lambda self, uid, ref, revision: None)


def requests_of_a_lost_node(seed):
    """Return a history in which a node vanishes while the request to bind a pod there is under way."""
    steps = (
        Step(2.0, "+late-api-requests", (0.6,)),
        *(Step(2.1, "pod", (f"pod-{number}", "mps", 0, "default", 0.0)) for number in range(3)),
        Step(2.6, "remove-node", ("node-0",)),
        Step(2.7, "-late-api-requests", (0.6,)),
    )
    replicas = {"inventory": 1, "placement": 1, "binder": 1, "metrics": 1}
    return Scenario(seed, {"node-0": "mps", "node-1": "gpu-number"}, replicas, steps)


def drawn(faults, replicas):
    """Return a function that draws the history of a seed with these faults."""
    return lambda seed: draw(seed, replicas, faults)


BUGS = {
    skip_expected_sequence: drawn(("cut", "lost-deliveries", "silent-consumers"), {"placement": 3}),
    reuse_an_id: drawn((), {}),
    forget_a_release: drawn((), {}),
    split_a_gang: drawn((), {}),
    bind_twice_on_redelivery: drawn(("kill", "silent-consumers"), {"binder": 1}),
    accept_an_unsigned_annotation: drawn(("forged-annotations",), {}),
    late_binding: requests_of_a_lost_node,
    ignore_roll_back: drawn(("roll-back",), {}),
    retry_without_read_back: drawn(("lost-acks", "late-acks"), {"placement": 3}),
    forget_a_tombstone: drawn((), {}),
}


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.__name__)
def test_a_seeded_bug_is_found(bug):
    with ExitStack() as stack:
        stack.enter_context(bug())
        for number in range(HISTORIES):
            played = play(BUGS[bug](f"{bug.__name__}.{number}"))
            if played.violation is not None:
                return
    pytest.fail(f"not found in {HISTORIES} histories")


def test_a_late_binding_breaks_no_rule_without_the_bug():
    for number in range(3):
        assert play(requests_of_a_lost_node(f"late_binding.{number}")).violation is None
