"""The record of a history: what was done to the system and what the system did, as text."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from deviceshare.model import NodeLedger, NodeOutcomes
from deviceshare_bus.messages.codec import decode_ledger, decode_outcomes
from deviceshare_bus.messages.leases import decode_fence, decode_lease
from deviceshare_bus.messages.subjects import node_of, of_replicas
from msgspec import MsgspecError

from deviceshare_lab.clusters.fields import annotations_of, name_of
from deviceshare_lab.world.apiserver import Seen
from deviceshare_lab.world.jetstream import Stored, Stream
from deviceshare_lab.world.nats_server import STRANGER


class Entry(NamedTuple):
    """What happened at a virtual time, in seconds."""

    at: float
    text: str


class History:
    """The lines of a history. It hears of all writes to the API server and to the bus."""

    def __init__(self) -> None:
        self._lines: list[Entry] = []
        self._claims: dict[str, dict[str, str]] = {}
        """The claims of each node, by id: the text of each."""
        self._going: dict[str, dict[str, str]] = {}
        """The pods of each node that have to go: the claim of each, by uid."""
        self._outcomes: dict[str, set[str]] = {}
        self._leases: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        """What the lease of each member says."""

    def add(self, at: float, text: str) -> None:
        """Append a line."""
        self._lines.append(Entry(at, text))

    def text(self) -> str:
        """Return all lines."""
        return "\n".join(f"{line.at:9.3f}  {line.text}" for line in self._lines) + "\n"

    def object_changed(self, at: float, seen: Seen) -> None:
        """Record a write to the API server."""
        for text in _changes(seen):
            self.add(at, text)

    def written(self, at: float, stream: Stream, messages: Sequence[Stored], writer: str) -> None:
        """Record a write to the bus."""
        for stored in messages:
            if of_replicas(stored.subject):
                if (text := self._lease(stored)) is not None:
                    self.add(at, f"{writer}: {stream.name} {stored.sequence} {text}")
            elif stream.name == "LEDGER":
                for text in self._ledger(stored):
                    self.add(at, f"{writer}: LEDGER {stored.sequence} {text}")
            elif stream.name == "OUTCOME":
                for text in self._outcome(stored):
                    self.add(at, f"{writer}: OUTCOME {stored.sequence} {text}")
            elif writer == STRANGER:
                self.add(at, f"{writer}: {stream.name} {stored.sequence} {stored.subject}")

    def _lease(self, stored: Stored) -> str | None:
        """Return what a lease or a fence says, None for the renewal of a lease."""
        try:
            if stored.subject.split(".", 2)[1] == "fence":
                return f"fence of {decode_fence(stored.data).key}"
            lease = decode_lease(stored.data)
        except MsgspecError as error:
            return f"{stored.subject}: cannot be decoded: {error}"
        says = (lease.members, lease.split)
        if self._leases.get(lease.key) == says:
            return None
        self._leases[lease.key] = says
        return f"lease of {lease.key}, names {', '.join(lease.members) or 'none'}"

    def _ledger(self, stored: Stored) -> Iterator[str]:
        node = node_of(stored.subject)
        try:
            ledger: NodeLedger = decode_ledger(stored.data)
        except MsgspecError as error:
            yield f"{node}: cannot be decoded: {error}"
            return
        before = self._claims.get(node, {})
        after = {claim.id: _claim_text(claim.withdraw) for claim in ledger.claims}
        self._claims[node] = after
        for claim in ledger.claims:
            if claim.id not in before:
                devices = " ".join(
                    f"{device.id}:{device.memory}:{device.cores}{device.detail and ':' + device.detail}"
                    for grant in claim.grants
                    for device in grant.devices
                )
                yield f"{node}: + {claim.id} {claim.name} ({claim.uid}) {devices}"
            elif before[claim.id] != after[claim.id]:
                yield f"{node}: {after[claim.id]} {claim.id}"
        for identity in before:
            if identity not in after:
                yield f"{node}: - {identity}"
        went, self._going[node] = self._going.get(node, {}), {each.uid: each.claim for each in ledger.evictions}
        for each in ledger.evictions:
            if (earlier := went.get(each.uid)) != each.claim:
                instead = f" instead of {earlier}" if earlier is not None else ""
                yield f"{node}: {each.namespace}/{each.name} goes for {each.claim}{instead}"

    def _outcome(self, stored: Stored) -> Iterator[str]:
        node = node_of(stored.subject)
        try:
            outcomes: NodeOutcomes = decode_outcomes(stored.data)
        except MsgspecError as error:
            yield f"{node}: cannot be decoded: {error}"
            return
        before = self._outcomes.get(node, set())
        self._outcomes[node] = {outcome.claim for outcome in outcomes.outcomes}
        for outcome in outcomes.outcomes:
            if outcome.claim not in before:
                yield f"{node}: {outcome.claim} {outcome.state} {outcome.reason}".rstrip()


def _claim_text(withdraw: bool) -> str:
    return "withdraw" if withdraw else "keep"


def _changes(seen: Seen) -> Iterator[str]:
    before, after = seen.before, seen.after
    obj = after or before
    assert obj is not None
    if seen.kind == "Event":
        return
    what = f"{seen.kind} {name_of(obj)}"
    if before is None:
        yield f"{seen.by}: created {what} ({obj['metadata']['uid']})"
        return
    if after is None:
        yield f"{seen.by}: deleted {what} ({obj['metadata']['uid']})"
        return
    if seen.kind != "Pod":
        return
    if (node := after["spec"].get("nodeName")) and not before["spec"].get("nodeName"):
        given = {
            key: value
            for key, value in annotations_of(after).items()
            if key.endswith(("vgpu-ids-new", "gpu-index", "-allocated", "npu-core"))
        }
        yield f"{seen.by}: bound {what} to {node} {given}"
    if before["status"].get("phase") != after["status"].get("phase"):
        yield f"{seen.by}: {what} is {after['status'].get('phase')} {after['status'].get('reason') or ''}".rstrip()
    if "deletionTimestamp" in after["metadata"] and "deletionTimestamp" not in before["metadata"]:
        yield f"{seen.by}: {what} terminates"
    said = _scheduled(after)
    if said != _scheduled(before) and said is not None and said["status"] == "False":
        yield f"{seen.by}: {what} waits: {said.get('message', '')}"


def _scheduled(pod: dict[str, object]) -> dict[str, str] | None:
    conditions = (pod.get("status") or {}).get("conditions") or ()  # type: ignore[attr-defined]
    return next((each for each in conditions if each["type"] == "PodScheduled"), None)
