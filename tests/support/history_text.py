"""Histories of the placement core as text: commands, each followed by the indented commands that the core returned.

Model: rafttest of etcd-io/raft. A history is a file of lines. A line that begins in the first column is a command for
the player below, ``#`` begins a comment; the indented lines below a command are the expected output::

    node a cards=2x100
    start
    pod x memory=60
    tick
      write 1
        a after 0: p-1=x[GPU-0:60]
    ack 1
      explain x: placed on a
      step x claimed on a

:func:`play` returns the text with the output of the core as it is now.
"""

import shlex
from collections.abc import Iterable, Iterator
from typing import Any

from deviceshare.model import (
    Claim,
    ContainerGrant,
    DeviceGrant,
    GroupKey,
    NodeFact,
    NodeLedger,
    PodFact,
    PodGroupFact,
    PodRequest,
    QueueFact,
)
from deviceshare_bus.cores.core import (
    Command,
    Count,
    Event,
    ExpireOthers,
    Log,
    PutLatest,
    Read,
    RecordBatch,
    RecordStep,
    RecordTrace,
    Write,
    Written,
)
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import ATTEMPTS
from msgspec.structs import replace
from support.builders import card, node, pod, share, share_cards, vgpu
from support.played import Commands, Played

_INDENT = "  "


def play(text: str) -> str:
    """Run the commands of a history; return it with the output that the core gives.

    Raises:
        ValueError: for a command that cannot be run; the message names its line.
    """
    history = _History()
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_INDENT):
            continue
        lines.append(line)
        words = shlex.split(line, comments=True)
        if words:
            try:
                lines += [f"{_INDENT}{each}" for each in history.run(words)]
            except (KeyError, LookupError, TypeError, ValueError) as error:
                raise ValueError(f"line {number}: {line!r}: {error!r}") from error
    return "\n".join(lines) + "\n"


class _History:
    """A core, what it wrote, and the objects of the cluster by name."""

    def __init__(self) -> None:
        self._played = Played(synced=False, empty=True)
        self._nodes: dict[str, NodeFact] = {}
        self._pods: dict[str, PodFact] = {}
        self._writes: dict[int, Write] = {}
        self._claims: dict[str, tuple[str, Claim]] = {}
        """The newest claim of each pod, by its name, with its node."""

    def run(self, words: list[str]) -> Iterator[str]:
        """Run one command; yield the lines of its output."""
        name, *rest = words
        options = dict(word.split("=", 1) for word in rest if "=" in word)
        arguments = [word for word in rest if "=" not in word]
        result = getattr(self, f"_{name.replace('-', '_')}")(*arguments, **options)
        return self._output(result) if isinstance(result, Commands) else iter([] if result is None else [result])

    # Objects of the cluster

    def _node(self, name: str, family: str = "vgpu", *, cards: str, **flags: str) -> Commands:
        """``node NAME [gpu-share] cards=COUNTxMEMORY [ready=no] [unschedulable=yes]``."""
        count, memory = map(int, cards.split("x"))
        if family == "gpu-share":
            found = list(share_cards(count, memory=memory))
        else:
            found = [card(at, memory=memory) for at in range(count)]
        states: dict[str, Any] = {key: value == "yes" for key, value in flags.items()}
        self._nodes[name] = node(name, found, **states)
        return self._played.put(self._nodes[name])

    def _pod(
        self, name: str, family: str = "vgpu", *, gang: str = "", node: str = "", held: str = "", **amounts: str
    ) -> Commands:
        """``pod NAME [gpu-share] [cards=N] [memory=MIB] [cores=PERCENT] [gang=G] [node=N held=CARD:MIB,…]``.

        And ``created``, ``priority``: numbers.
        """
        numbers = {key: int(value) for key, value in amounts.items()}
        rest = {key: numbers.pop(key) for key in ("created", "priority") if key in numbers}
        request = share(numbers["memory"]) if family == "gpu-share" else _vgpu(**numbers)
        fact = pod(name, request, gang=gang, node=node, held=_grants(held) if held else (), **rest)
        return self._put_pod(fact)

    def _gang(self, name: str, *, min: str) -> Commands:  # noqa: A002
        """``gang NAME min=N``: a PodGroup."""
        return self._played.put(PodGroupFact(key=GroupKey(f"ns/{name}"), uid=name, min_member=int(min), admitted=True))

    def _queue(self, name: str, state: str = "open") -> Commands:
        """``queue NAME [STATE]``."""
        return self._played.put(QueueFact(name=name, open=state == "open", state=state))

    def _bind(self, name: str) -> Commands:
        """``bind POD``: the pod is seen bound by its newest claim."""
        where, claim = self._claims[name]
        return self._put_pod(replace(self._pods[name], node=where, held=claim.grants))

    def _end(self, name: str) -> Commands:
        """``end POD``: the pod has ended."""
        return self._put_pod(replace(self._pods[name], ended=True))

    def _delete(self, kind: str, name: str) -> Commands:
        """``delete node|pod NAME``."""
        return self._played.remove(kind, f"uid-{name}" if kind == "pod" else name)

    def _put_pod(self, fact: PodFact) -> Commands:
        self._pods[fact.name] = fact
        return self._played.put(fact)

    # The bus

    def _synced(self) -> Commands:
        """``synced``: the whole cluster has been on the bus."""
        return self._played.sync()

    def _caught_up(self) -> Commands:
        """``caught-up``: all streams have been read to their end."""
        return self._played.caught_up()

    def _start(self) -> Commands:
        """``start``: ``synced`` and ``caught-up``."""
        return Commands(self._played.sync() + self._played.caught_up())

    def _tick(self, *, after: str = "0") -> Commands:
        """``tick [after=SECONDS]``."""
        commands = self._played.tick(float(after))
        for write in commands.writes:
            self._writes[write.token] = write
        for ledger in commands.ledgers:
            self._claims |= {claim.name: (ledger.node, claim) for claim in ledger.claims}
        return commands

    def _ack(self, token: str, *, sequence: str = "") -> Commands:
        """``ack WRITE [sequence=N]``: the write is acknowledged; without ``sequence`` as the next one of the stream."""
        write = self._writes.pop(int(token))
        self._played.sequence = int(sequence) if sequence else self._played.sequence + len(write.writes)
        return self._send(Written(write.token, self._played.sequence))

    def _conflict(self, token: str) -> Commands:
        """``conflict WRITE``."""
        return self._played.conflict(self._writes.pop(int(token)))

    def _unknown(self, token: str) -> Commands:
        """``unknown WRITE``: no answer arrives."""
        return self._played.unknown(self._writes[int(token)])

    def _refuse(self, token: str, reason: str) -> Commands:
        """``refuse WRITE "REASON"``: the server will never accept the write."""
        return self._played.refused(self._writes.pop(int(token)), reason)

    def _ledger(self, name: str, sequence: str, *claims: str, **decided: str) -> Commands:
        """``ledger NODE SEQUENCE [CLAIM:POD …] [at=SECONDS]``: a version that another replica wrote."""
        at = float(decided.get("at", 0))
        found = [_claim(*each.split(":"), at) for each in claims]
        self._claims |= {claim.name: (name, claim) for claim in found}
        self._played.sequence = max(self._played.sequence, int(sequence))
        return self._played.ledger(name, int(sequence), *found)

    def _pod_read(self, name: str) -> Commands:
        """``pod-read POD``: CLUSTER holds no fact of the pod."""
        return self._played.pod_read(f"uid-{name}")

    def _read_back(self, name: str, sequence: str = "0", *, write: str = "") -> Commands:
        """``read-back NODE [SEQUENCE write=WRITE]``: the ledger is empty, or as that write left it."""
        ledger: NodeLedger | None = None
        for each in self._writes.pop(int(write)).writes if write else ():
            ledger = each.message if each.message.node == name else ledger
        self._played.sequence = max(self._played.sequence, int(sequence))
        return self._played.read_back(name, int(sequence), ledger)

    def _unreadable(self, name: str, sequence: str) -> Commands:
        """``unreadable NODE SEQUENCE``: a version that cannot be decoded."""
        return self._played.unreadable(name, int(sequence))

    def _outcome(self, name: str, state: str, reason: str = "") -> Commands:
        """``outcome POD bound|refused|withdrawn ["REASON"]``: of the newest claim of the pod."""
        where, claim = self._claims[name]
        return self._played.outcome(claim, state, reason, where)

    def _send(self, event: Event) -> Commands:
        return self._played.send(event)

    # What the core says of itself

    def _due(self) -> str:
        """``due``: in how many seconds a tick has something to do."""
        due = self._played.due
        return "never" if due is None else f"in {due:.1f} s"

    def _open(self) -> str:
        """``open``: how much work is open."""
        return str(self._played.core.open_work)

    def _used(self, name: str) -> str:
        """``used NODE``: the memory that is used of each card, MiB."""
        cards = self._played.core.scheduler.cluster.allocator.used_cards(name)
        return " ".join(str(each.memory) for each in cards) or "no cards"

    # Output

    def _output(self, commands: Iterable[Command]) -> Iterator[str]:
        for command in commands:
            match command:
                case Write(token=token, writes=writes):
                    yield f"write {token}"
                    for each in writes:
                        claims = ", ".join(map(_described, each.message.claims)) or "no claims"
                        yield f"{_INDENT}{each.message.node} after {each.expected}: {claims}"
                case PutLatest(message=message, ttl=ttl):
                    kept = "" if ttl is None else f" (kept for {ttl:.0f} s)"
                    by = f" (decided by {message.decided_by})" if message.decided_by != "p" else ""
                    yield f"explain {message.name}: {message.message}{kept}{by}"
                case RecordStep(pod=ref, name=name, node=where, message=message):
                    reason = f": {message}" if message and name.startswith("claim ") else ""
                    yield f"step {ref.partition('/')[2]} {name}{f' on {where}' if where else ''}{reason}"
                case Read(stream="CLUSTER", subject=subject):
                    yield f"read the fact of {subject.removeprefix('cluster.pod.uid-')}"
                case Read(subject=subject):
                    yield f"read the ledger of {subjects.node_of(subject)}"
                case RecordTrace() | RecordBatch():
                    pass  # test_traces.py
                case ExpireOthers():
                    pass  # once after the start
                case Count(name=name) if name.startswith(ATTEMPTS):
                    pass  # test_attempts.py
                case Count(name=name):
                    yield f"count {name}"
                case Log(level=level, message=message):
                    yield f"log {level}: {message}"
                case _:
                    raise TypeError(f"no text for {command}")


def _vgpu(*, cards: int = 1, memory: int | None = None, cores: int | None = None) -> PodRequest:
    return vgpu(cards, memory, cores)


def _grants(text: str) -> tuple[ContainerGrant, ...]:
    """Return the grant of ``CARD:MIB,…``."""
    devices = []
    for at, each in enumerate(text.split(",")):
        name, memory = each.split(":")
        devices.append(DeviceGrant(name, at, int(memory), 0))
    return (ContainerGrant("c0", 0, "hami-core", tuple(devices)),)


def _claim(claim_id: str, name: str, at: float) -> Claim:
    return Claim(id=claim_id, uid=f"uid-{name}", namespace="ns", name=name, decided_by="other", decided_at=at)


def _described(claim: Claim) -> str:
    devices = ",".join(f"{device.id}:{device.memory}" for grant in claim.grants for device in grant.devices)
    withdraw = " withdraw" if claim.withdraw else ""
    return f"{claim.id}={claim.name}{f'[{devices}]' if devices else ''}{withdraw}"
