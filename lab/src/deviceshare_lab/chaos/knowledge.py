"""What an instance can know of a node when it asks for a binding: a node may be replaced by another of its name.

The API server does not compare the node of a Binding with the one that its sender has in mind.
"""

from deviceshare.model import NodeFact
from deviceshare_bus.messages.codec import decode_fact, decode_ledger
from deviceshare_bus.messages.subjects import fact, ledger
from msgspec import MsgspecError

from deviceshare_lab.world.apiserver import ApiServer
from deviceshare_lab.world.jetstream import Stored
from deviceshare_lab.world.nats_server import Server

FORMER = "a former node"


class Knowledge:
    """The requests for bindings whose sender had no way to know the node that there is by then."""

    def __init__(self, api: ApiServer, bus: Server) -> None:
        self._api, self._bus = api, bus
        self._nodes: dict[str, str | None] = {}
        """By the pod's uid, the node's uid as the sender of the last request could know it, None for no excuse."""

    def requested(self, uid: str, node: str, by: str) -> None:
        """Note what the sender of a request for a binding could know."""
        self._nodes[uid] = self._known(uid, node, by)

    def misled(self, uid: str, node: str) -> bool:
        """Return whether a pod is bound to another node than the one that the sender of the request could know."""
        known = self._nodes.get(uid)
        found = self._api.peek("Node", "", node)
        return known is not None and found is not None and found["metadata"]["uid"] != known

    def _known(self, uid: str, node: str, by: str) -> str | None:
        claimed, found = self._sent("LEDGER", ledger(node), by), self._sent("CLUSTER", fact("node", node), by)
        try:
            claims = decode_ledger(claimed.data).claims if claimed is not None else ()
            content = decode_fact(found.data) if found is not None else None
        except MsgspecError:
            return None
        if any(claim.uid == uid and claim.withdraw for claim in claims):
            return None
        if content is None:
            return FORMER
        return content.uid if isinstance(content, NodeFact) else None

    def _sent(self, stream: str, subject: str, to: str) -> Stored | None:
        """Return the last message of a subject if it was sent to an instance."""
        found = self._bus.streams[stream].last(subject) if stream in self._bus.streams else None
        sent = max((client.sent.get(stream, 0) for client in self._bus.clients if client.name == to), default=0)
        return found if found is not None and found.sequence <= sent else None
