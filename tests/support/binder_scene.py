"""Claims, pods and nodes for tests of the binder's core."""

from deviceshare.model import Claim
from deviceshare_binder.core.views import NodeView, PodView
from deviceshare_binder.service import decoder
from deviceshare_bus.messages.codec import Message, encode
from support.binder import BinderDriver, messages

READY = NodeView(name="n1")


def message(subject, content):
    """Return a message of the bus."""
    return Message(subject, 1, encode(content))


def seen(fact):
    """Return what the binder's core gets to know of a pod's fact."""
    return decoder()(message("cluster.pod.u1", fact)).pod


def pod(uid="u1", **fields):
    """Return a pod of the namespace default."""
    return PodView(uid=uid, namespace="default", name=f"pod-{uid}", **fields)


def claim(identity="c1", uid="u1", **fields):
    """Return a claim of a pod of :func:`pod`."""
    return Claim(id=identity, uid=uid, namespace="default", name=f"pod-{uid}", **fields)


def started(*claims, pods=(), nodes=(READY,), outcomes=(), **arguments):
    """Return a core that has read these facts and outcomes and then learns of these claims on n1."""
    core = BinderDriver(**arguments)
    for one in nodes:
        core.node(one.name, one)
    for one in pods:
        core.pod(one.uid, one)
    if outcomes:
        core.outcomes("n1", 1, {one.claim: one for one in outcomes})
    core.start()
    core.ledger("n1", claims)
    return core


def of(kind, commands):
    """Return the commands of a type."""
    return [one for one in commands if isinstance(one, kind)]


def states(commands):
    """Return state and reason of the outcomes that these commands write, by claim."""
    return {one.claim: (one.state, one.reason) for message in messages(commands) for one in message.outcomes}
