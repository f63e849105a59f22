"""Messages of a stranger on the bus: bytes that are no message, wrong subjects, forged claims."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from deviceshare_bus.messages.subjects import ledger, outcome
from deviceshare_bus.wire.connection import Connection

from deviceshare_lab.checker.claims import Claims

GARBAGE = (b"", b"\x93 not ours", b"{}", b"\xc1", b"\x80", b"\xff" * 64, b"\xdf\xff\xff\xff\xff")


class Hostile:
    """Publishes messages that no service writes."""

    def __init__(self, bus: Connection, chance: random.Random, claims: Claims) -> None:
        self._bus, self._chance, self._claims = bus, chance, claims
        self._number = 0

    async def _publish(self, subject: str, data: bytes) -> None:
        self._claims.foreign.add(subject)
        await self._bus.repeat(lambda: self._bus.jetstream.publish(subject, data), "cannot publish yet")

    async def garbage(self) -> str:
        """Publish bytes under valid subjects of nodes and pods that do not exist."""
        self._number += 1
        name = f"stranger-{self._number}"
        subjects = (f"cluster.node.{name}", f"cluster.pod.{name}", ledger(name), outcome(name), f"explain.{name}")
        subject = self._chance.choice((*subjects, "event.stranger"))
        await self._publish(subject, self._chance.choice(GARBAGE))
        return subject

    async def wrong_subject(self, nodes: list[str]) -> str:
        """Publish a message whose subject is malformed, or names another node than the message."""
        node = self._chance.choice(nodes)
        self._number += 1
        wrong: tuple[tuple[str, object], ...] = (
            ("ledger.x", {"node": node, "claims": []}),
            ("outcome.x", {"node": node, "outcomes": []}),
            (f"ledger.64.{node}", {"node": node, "claims": []}),
            (f"outcome.64.{node}", {"node": node, "outcomes": []}),
            (ledger(f"stranger-{self._number}"), {"node": node, "claims": []}),
            (outcome(f"stranger-{self._number}"), {"node": node, "outcomes": []}),
            ("cluster.pod", {"kind": "gone", "revision": 1}),
            (f"cluster.node.stranger-{self._number}", {"kind": "node", "revision": 2**63 + 5, "name": node}),
            (f"cluster.unknown.{node}", {"kind": "gone", "revision": 1}),
        )
        subject, message = self._chance.choice(wrong)
        await self._publish(subject, msgspec.msgpack.encode(message))
        return subject

    async def forged_claim(self, nodes: list[str], waiting: Sequence[Mapping[str, Any]]) -> str:
        """Add a claim to the ledger of a node for a pod that waits: more memory than it requests."""
        if not waiting:
            return "no pod waits"
        node, metadata = self._chance.choice(nodes), self._chance.choice(waiting)["metadata"]
        self._number += 1
        identity = f"forged-{self._number}"
        self._claims.foreign.add(identity)

        async def forge() -> None:
            info = await self._bus.jetstream.stream_info("LEDGER", subjects_filter=ledger(node))
            claims = []
            if info.state.subjects:
                last = await self._bus.jetstream.get_last_msg("LEDGER", ledger(node))
                claims = msgspec.msgpack.decode(last.data or b"\x80").get("claims", [])
            forged = {
                "id": identity,
                "uid": metadata["uid"],
                "namespace": metadata["namespace"],
                "name": metadata["name"],
                "grants": [["main", 0, "gpu-share", [["0", 0, 24576, 0]]]],
            }
            message = {"node": node, "claims": [*claims, forged]}
            await self._bus.jetstream.publish(ledger(node), msgspec.msgpack.encode(message))

        await self._bus.repeat(forge, "cannot forge a claim yet")
        return f"of {metadata['name']} on {node}"
