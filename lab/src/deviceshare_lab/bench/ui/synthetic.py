"""A synthetic cluster for the metrics core: nodes of several models, bound and waiting pods, and endless changes."""

import math
import random
from collections.abc import Iterable, Iterator

import msgspec
from deviceshare.model import (
    Card,
    Claim,
    ContainerGrant,
    DeviceGrant,
    Explanation,
    GroupKey,
    NearCard,
    NearNode,
    NodeFact,
    NodeLedger,
    PodFact,
    PodGroupFact,
    PodUid,
    QueueFact,
    Refusal,
    unavailable,
)
from deviceshare_bus.cores.core import CaughtUp, Event, Now, Tick
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import Events, Message, Step, encode
from deviceshare_bus.messages.subjects import Stream
from deviceshare_metrics.core import MetricsCore
from deviceshare_metrics.decoding import decode

from deviceshare_lab.clusters.facts import make_request

MODELS = (
    ("NVIDIA-H100-80GB-HBM3", "hami-core", 81559, 100, 10),
    ("NVIDIA-A100-SXM4-40GB", "hami-core", 40960, 100, 10),
    ("NVIDIA-A100-SXM4-40GB", "mig", 40960, 100, 7),
    ("NVIDIA-L4", "hami-core", 23034, 100, 10),
    ("Ascend910B3", "vnpu", 65536, 20, 4),
)
_FAMILY = {"hami-core": "hami-core", "mig": "mig", "vnpu": "vnpu-hami"}
_PARTS = {"mig": (5120, 10240, 20480), "vnpu": (16384, 32768)}
QUEUES = ("research", "training", "inference", "default")
_UNHEALTHY, _WHOLE, _LARGE = 0.006, 0.12, 0.3
"""Shares: of unhealthy cards, of nodes with whole cards, of pods that take a large part of a card."""


class SyntheticCluster:
    """Feeds a metrics core as the shell of the service does.

    Args:
        nodes: number of nodes.
        cards: number of cards of each node.
        seed: of everything that is drawn at random.
        at: unix seconds of the present.
        past: whether a day of steps precedes the present.
    """

    def __init__(self, nodes: int, cards: int, seed: int, at: float, *, past: bool = False) -> None:
        self.core = MetricsCore()
        self._random = random.Random(seed)  # noqa: S311  a synthetic load, not a secret
        self._at = at
        self._seconds = 0.0
        self._pods = 0
        self._spread = past
        self._cards: dict[str, tuple[Card, ...]] = {}
        self._claims: dict[str, list[Claim]] = {}
        if past:
            self._receive_all(self._past())
        self._receive_all(self._objects(nodes, cards))
        for stream in Stream:
            self.core.handle(CaughtUp(stream), self._now)
        self.core.handle(Tick(), self._now)

    def pass_time(self, seconds: float) -> None:
        """Let time pass: later changes have later times."""
        self._seconds += seconds

    def change(self) -> None:
        """Bind a pod to a random node, or end one that runs there."""
        name = self._random.choice([*self._cards])
        claims = self._claims[name]
        if claims and self._random.random() < len(claims) / (3.5 * len(self._cards[name])):
            ended = claims.pop(self._random.randrange(len(claims)))
            messages = [self._step("inventory", "gone", ended.uid, f"{ended.namespace}/{ended.name}", name)]
        else:
            messages = [*self._placed(name)]
        self._receive_all([*messages, (subjects.ledger(name), NodeLedger(node=name, claims=tuple(claims)))])

    @property
    def _now(self) -> Now:
        return Now(self._seconds + 1000.0, self._at + self._seconds)

    def _receive_all(self, messages: Iterable[tuple[str, msgspec.Struct]]) -> None:
        for subject, message in messages:
            event: Event | None = decode(Message(subject, 1, encode(message)))
            if event is not None:
                self.core.handle(event, self._now)

    def _objects(self, nodes: int, cards: int) -> Iterator[tuple[str, msgspec.Struct]]:
        for weight, name in enumerate(QUEUES, 1):
            total = nodes * cards * 10
            capability = {"volcano.sh/vgpu-number": total * (weight + 1) // 35}
            yield subjects.fact("queue", name), QueueFact(name=name, weight=weight, capability=capability)
        for number in range(nodes):
            yield from self._node(f"node-{number:04d}", number, cards)
        for name in self._cards:
            for _ in range(self._random.choice((0, 6, 12, 18, 24, 30, 36)) if self._cards[name] else 0):
                yield from self._placed(name)
            yield subjects.ledger(name), NodeLedger(node=name, claims=tuple(self._claims[name]))
        yield from self._waiting(nodes)

    def _past(self) -> Iterator[tuple[str, msgspec.Struct]]:
        """Yield steps of pods that are gone: more of them by day than by night."""
        for minute in range(24 * 60, 0, -1):
            busy = 1.2 + math.sin(minute / 1440 * math.tau + 1.2)
            names = ["bound"] * int(busy * self._random.uniform(5, 15)) + ["pending"] * int(
                busy * self._random.random() * 4
            )
            at = self._at - 60.0 * minute
            steps = tuple(
                Step(f"past-{minute}-{each}", f"past/{minute}-{each}", name, at) for each, name in enumerate(names)
            )
            yield subjects.event("binder"), Events(service="binder", instance="binder-0", at=at, steps=steps)

    def _node(self, name: str, number: int, cards: int) -> Iterator[tuple[str, msgspec.Struct]]:
        if self._random.random() < _WHOLE:
            labels = {"nvidia.com/gpu.product": "NVIDIA-V100-SXM2-32GB"}
            fact = NodeFact(name=name, labels=labels, allocatable={"cpu": 128_000, "nvidia.com/gpu": cards})
            yield subjects.fact("node", name), fact
            held = self._random.randrange(cards + 1)
            for at in range(held):
                uid, ask = PodUid(f"whole-{name}-{at}"), make_request({"cpu": 4000, "nvidia.com/gpu": 1})
                pod = PodFact(uid=uid, namespace="legacy", name=uid, node=name, ask=ask, running=True)
                yield subjects.fact("pod", uid), pod
            return
        model, mode, memory, cores, slots = MODELS[number * len(MODELS) // 1250 % len(MODELS)]
        found = tuple(
            Card(f"GPU-{number:04d}-{at}", at, slots, memory, cores, model, self._random.random() >= _UNHEALTHY, mode)
            for at in range(cards)
        )
        self._cards[name], self._claims[name] = found, []
        ready = self._random.random() >= 2 * _UNHEALTHY
        yield subjects.fact("node", name), NodeFact(name=name, cards=found, ready=ready, allocatable={"cpu": 128_000})

    def _placed(self, node: str) -> Iterator[tuple[str, msgspec.Struct]]:
        self._pods += 1
        card = self._random.choice(self._cards[node])
        used = sum(
            device.memory
            for claim in self._claims[node]
            for grant in claim.grants
            for device in grant.devices
            if device.id == card.id
        )
        parts = _PARTS.get(card.mode)
        part = self._random.choice((0.5, 0.75, 1.0) if self._random.random() < _LARGE else (0.1, 0.2, 0.25, 0.4))
        memory = self._random.choice(parts) if parts else int(card.memory * part)
        if used + memory > card.memory or not card.healthy:
            return
        queue = self._random.choice(QUEUES)
        uid, name = f"uid-{self._pods}", f"{queue}-{self._pods:06d}"
        device = DeviceGrant(card.id, card.index, memory, max(1, card.cores * memory // card.memory))
        grants = (ContainerGrant("main", 0, _FAMILY[card.mode], (device,)),)
        at = self._at + self._seconds
        if self._spread and not self._seconds:
            at -= 86_400.0 * self._random.random()
        self._claims[node].append(
            Claim(
                id=f"claim-{uid}", uid=uid, namespace=queue, name=name, queue=queue, decided_by="placement-0",
                seen_at=at + 0.004, decided_at=at + 0.016, sent_at=at + 0.019, grants=grants,
                resources=(("cpu", 2000),),
            )
        )  # fmt: skip
        yield subjects.fact("pod", uid), self._pod(uid, queue, name, node=node)
        for service, step, later in (
            ("inventory", "seen", 0.0), ("placement", "claimed", 0.021), ("binder", "bound", 0.034),
        ):  # fmt: skip
            yield self._step(service, step, uid, f"{queue}/{name}", node, at + later)

    def _pod(self, uid: str, queue: str, name: str, *, node: str = "", group: str = "") -> PodFact:
        return PodFact(
            uid=PodUid(uid), namespace=queue, name=name, scheduler="volcano", queue=queue, node=node,
            group=GroupKey(group or f"pod/{uid}"), created=self._at - 600.0 * self._random.random(),
            ask=make_request({"cpu": 2000, "volcano.sh/vgpu-memory": 30000, "volcano.sh/vgpu-number": 1}),
        )  # fmt: skip

    def _step(
        self, service: str, name: str, uid: str, pod: str, node: str = "", at: float | None = None
    ) -> tuple[str, msgspec.Struct]:
        at = self._at + self._seconds if at is None else at
        return subjects.event(service), Events(
            service=service, instance=f"{service}-0", at=at, steps=(Step(uid, pod, name, at, node),)
        )

    def _waiting(self, nodes: int) -> Iterator[tuple[str, msgspec.Struct]]:
        shared = [name for name in self._cards if self._cards[name]]
        for number, (queue, name, size, code, text, asked, free, unit) in enumerate(_REASONS):
            job = f"{queue}/{name}"
            group = PodGroupFact(key=GroupKey(job), queue=queue, min_member=size)
            yield subjects.fact("podgroup", job), group
            near = self._random.sample(shared, min(3, len(shared)))
            refusal = Refusal(
                code=code, text=text, nodes=nodes, asked=asked, free=free, unit=unit, nearest=near[0] if near else ""
            )
            for at in range(size):
                uid, name = f"wait-{number}-{at}", f"{job.partition('/')[2]}-worker-{at}"
                pod = self._pod(uid, queue, name, group=job)
                yield subjects.fact("pod", uid), pod
                yield self._step("inventory", "seen", uid, pod.ref, at=pod.created)
                yield self._step("placement", "pending", uid, pod.ref, at=pod.created + 0.1)
                yield subjects.explain(uid), Explanation(
                    uid=uid, namespace=queue, name=name, at=pod.created + 0.1, decision="pending", nodes=nodes,
                    message=unavailable(nodes, (refusal,)), refusals=(refusal,), first_failing=(refusal,),
                    queue=queue, group=job, gang=f"0 of {size} pods are placed; the gang needs {size}",
                    decided_by="placement-0", closest=tuple(self._near(name, refusal) for name in near),
                )  # fmt: skip

    def _near(self, node: str, refusal: Refusal) -> NearNode:
        cards = tuple(
            NearCard(id=card.id, index=card.index, codes=(refusal.code,), memory=free, cores=free * 100 // card.memory,
                     slots=self._random.randrange(1, card.slots + 1))
            for card in self._cards[node]
            for free in (self._random.randrange(card.memory // 2),)
        )  # fmt: skip
        return NearNode(node=node, refusals=(refusal,), cards=cards)


_REASONS = (
    (
        "training",
        "gpt-large-0",
        64,
        "CardInsufficientMemory",
        "with too little free memory on each card",
        81000,
        40779,
        "MiB",
    ),
    (
        "training",
        "vision-sweep",
        16,
        "CardInsufficientMemory",
        "with too little free memory on each card",
        60000,
        40779,
        "MiB",
    ),
    ("research", "ablation-7", 9, "CardInsufficientCore", "with too few free cores on each card", 100, 60, "percent"),
    ("inference", "ranker-eval", 4, "CardTypeMismatch", "without a card of a requested type", 0, 0, ""),
    ("research", "zone-b-test", 2, "NodeUnfitPod", "that do not match the pod's node affinity", 0, 0, ""),
)
