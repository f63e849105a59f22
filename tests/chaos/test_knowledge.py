"""A binding for cards of a former node is excused only if its sender could not know the node that there is."""

import random

import pytest
from deviceshare.model import Gone, NodeLedger
from deviceshare_bus.messages.codec import encode
from deviceshare_bus.messages.subjects import fact, ledger
from deviceshare_bus.streams.creation import make_streams
from deviceshare_lab.chaos.knowledge import Knowledge
from deviceshare_lab.world.apiserver import ApiServer
from deviceshare_lab.world.nats_client import SimulatedConnection
from deviceshare_lab.world.nats_server import Server
from deviceshare_lab.world.virtual_time import WALL, run
from msgspec.structs import replace
from support.binder_scene import claim
from support.builders import node


def misled(uid, *written, sent):
    """Ask for a binding when messages are on the bus, ``sent`` of them sent to the binder; then look at the node."""

    async def main():
        server = Server(random.Random(1), lambda stream, messages, writer: None)
        binder = SimulatedConnection(server, "binder", random.Random(2))
        binder.listen(binder.requests.subject, binder.requests.answered)
        await make_streams(binder)
        api = ApiServer(lambda: WALL)
        knowledge = Knowledge(api, server)
        for number, (stream, subject, message) in enumerate(written):
            stored = server.streams[stream].write(subject, encode(message), WALL)
            if number < sent:
                binder.client.sent[stream] = stored.sequence
        knowledge.requested("uid-p", "a", "binder")
        api.create({"kind": "Node", "metadata": {"name": "a", "uid": uid}, "spec": {}, "status": {}})
        return knowledge.misled("uid-p", "a")

    return run(main, "1")


def on_cluster(message):
    return "CLUSTER", fact("node", "a"), message


FIRST, SECOND = (on_cluster(replace(node("a"), uid=uid)) for uid in ("first", "second"))
WITHDRAWN = "LEDGER", ledger("a"), NodeLedger(node="a", claims=(claim("c1", "uid-p", withdraw=True),))


@pytest.mark.parametrize(
    ("written", "sent", "expected"),
    [
        ([FIRST], 1, True),  # not even CLUSTER has the second node
        ([FIRST, SECOND], 1, True),  # the binder has not
        ([FIRST, SECOND], 2, False),
        ([FIRST, on_cluster(Gone())], 2, False),
        ([FIRST, WITHDRAWN], 2, False),
        ([FIRST, WITHDRAWN], 1, True),
    ],
)
def test_a_binder_is_excused_if_it_could_not_know(written, sent, expected):
    assert misled("second", *written, sent=sent) is expected


def test_a_binding_to_the_known_node_needs_no_excuse():
    assert misled("first", FIRST, sent=1) is False
