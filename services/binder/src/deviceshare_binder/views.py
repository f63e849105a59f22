"""What the binder needs of facts and ledgers: a fraction of them, decoded cheaply. Pure."""

import msgspec
from deviceshare.allocation import CORDONED, tolerates
from deviceshare.model import Claim, Toleration


class _Name(msgspec.Struct, frozen=True, array_like=True, gc=False):
    name: str


class _Ask(msgspec.Struct, frozen=True, gc=False):
    containers: tuple[_Name, ...] = ()
    init_containers: tuple[_Name, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


class PodView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pod"):
    """The fields of a :class:`deviceshare.model.PodFact` that decide whether and where it may be bound."""

    uid: str
    namespace: str
    name: str
    node: str = ""
    running: bool = False
    ended: bool = False
    succeeded: bool = False
    terminating: bool = False
    gates: tuple[str, ...] = ()
    group: str = ""
    ask: _Ask = _Ask()
    unserved: tuple[tuple[str, str], ...] = ()
    until_running: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether what it has counts in a queue: it is of a PodGroup, and bound, and has not ended."""
        grouped = bool(self.group) and not self.group.startswith("pod/")
        return grouped and bool(self.node) and not (self.ended or self.terminating)

    @property
    def containers(self) -> tuple[str, ...]:
        """The names in ``spec.containers``."""
        return tuple(container.name for container in self.ask.containers)

    @property
    def init_containers(self) -> tuple[str, ...]:
        """The names in ``spec.initContainers``."""
        return tuple(container.name for container in self.ask.init_containers)

    @property
    def tolerates_cordons(self) -> bool:
        """Whether it may be bound to a node that is cordoned, as a pod of a DaemonSet may."""
        return tolerates(self.ask.tolerations, CORDONED)


class NodeView(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="node"):
    """The fields of a :class:`deviceshare.model.NodeFact` that decide whether a pod may be bound there."""

    name: str
    ready: bool = True
    unschedulable: bool = False
    locks: tuple[tuple[str, str], ...] = ()


class GoneView(msgspec.Struct, frozen=True, tag_field="kind", tag="gone"):
    """The object is no more."""


class _RawLedger(msgspec.Struct, frozen=True, kw_only=True):
    node: str
    claims: tuple[msgspec.Raw, ...] = ()


decode_pod = msgspec.msgpack.Decoder(PodView | GoneView).decode
decode_node = msgspec.msgpack.Decoder(NodeView | GoneView).decode
_decode_raw_ledger = msgspec.msgpack.Decoder(_RawLedger).decode
_decode_claim = msgspec.msgpack.Decoder(Claim).decode


class Ledgers:
    """Decodes the ledger's messages; of a node's claims only those that are new or changed."""

    def __init__(self) -> None:
        self._known: dict[str, dict[bytes, Claim]] = {}

    def decode(self, data: bytes) -> tuple[str, dict[str, Claim]]:
        """Return the node and its claims by id. Raises msgspec.MsgspecError."""
        ledger = _decode_raw_ledger(data)
        known = self._known.get(ledger.node, {})
        now: dict[bytes, Claim] = {}
        for raw in map(bytes, ledger.claims):
            now[raw] = known.get(raw) or _decode_claim(raw)
        self._known[ledger.node] = now
        return ledger.node, {claim.id: claim for claim in now.values()}
