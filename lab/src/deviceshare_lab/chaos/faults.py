"""The faults of a simulated system: how each is drawn, begins and ends.

A fault with a duration is two steps, ``+name`` and ``-name``; the others are one step.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from deviceshare.model import Claim, ContainerGrant, DeviceGrant, NodeLedger
from deviceshare_bus.messages.codec import decode_ledger, encode
from deviceshare_bus.messages.subjects import Stream, ledger
from deviceshare_cli.replicas import SERVICES

from deviceshare_lab.chaos.scenario import Step, Value
from deviceshare_lab.chaos.sizes import Size
from deviceshare_lab.chaos.system import System
from deviceshare_lab.chaos.workload import Episodes
from deviceshare_lab.clusters import manifests
from deviceshare_lab.clusters.fields import annotations_of

Arguments = tuple[Value, ...]
NO_MESSAGE = b"\x93 not ours"
REGISTER = "volcano.sh/node-vgpu-register"


class Fault(NamedTuple):
    """How a fault works: ``draw`` its arguments, ``begin`` it and, if it lasts, ``end`` it.

    ``weight``: how often it is drawn; more if it does harm only in few of the histories.
    """

    draw: Callable[[random.Random, Mapping[str, int]], Arguments]
    begin: Callable[[System, Arguments], None]
    end: Callable[[System, Arguments], None] | None = None
    weight: int = 1


def _process(chance: random.Random, replicas: Mapping[str, int]) -> Arguments:
    service = chance.choice([service for service in SERVICES if replicas.get(service)])
    return (f"{service}/{chance.randrange(replicas[service])}",)


def _nothing(chance: random.Random, replicas: Mapping[str, int]) -> Arguments:
    return ()


def _share(chance: random.Random, replicas: Mapping[str, int]) -> Arguments:
    return (chance.choice((0.05, 0.2, 0.6)),)


def _stream(chance: random.Random, replicas: Mapping[str, int]) -> Arguments:
    return (chance.choice(list(Stream)).value,)


def _stream_and_writes(chance: random.Random, replicas: Mapping[str, int]) -> Arguments:
    return chance.choice(list(Stream)).value, chance.choice((1, 3, 10, 50))


def _kill(system: System, arguments: Arguments) -> None:
    if (process := system.process(str(arguments[0]))) is not None:
        process.kill()


def _start(system: System, arguments: Arguments) -> None:
    if (process := system.process(str(arguments[0]))) is not None:
        process.start()


def _kill_all(system: System, arguments: Arguments) -> None:
    for process in system.processes:
        process.kill()


def _start_all(system: System, arguments: Arguments) -> None:
    for process in system.processes:
        process.start()


def _cut(system: System, arguments: Arguments) -> None:
    process = system.process(str(arguments[0]))
    if process is not None and process.connection is not None:
        process.connection.cut(float(arguments[1]))


def _lag(system: System, arguments: Arguments) -> None:
    process = system.process(str(arguments[0]))
    if process is not None and process.connection is not None:
        process.connection.lag(str(arguments[1]), float(arguments[2]))


def _end_lag(system: System, arguments: Arguments) -> None:
    for process in system.processes:
        if process.connection is not None:
            for stream in Stream:
                process.connection.lag(stream.value, 0.0)


def _step_clock(system: System, arguments: Arguments) -> None:
    if (process := system.process(str(arguments[0]))) is not None:
        process.wall_offset += float(arguments[1])


def _crash_bus(system: System, arguments: Arguments) -> None:
    system.bus.stop()


def _start_bus(system: System, arguments: Arguments) -> None:
    system.bus.start()


def _roll_back(system: System, arguments: Arguments) -> None:
    """Crash the server and lose the latest writes of a stream, which were acknowledged but not synced."""
    name, writes = str(arguments[0]), int(arguments[1])
    system.bus.stop()
    if (stream := system.bus.streams.get(name)) is not None:
        undone = system.bus.roll_back(stream, writes)
        system.note(f"{name} lost {undone} writes")
        system.checkers.damaged(stream)


def _empty(system: System, arguments: Arguments) -> None:
    if (stream := system.bus.streams.get(str(arguments[0]))) is not None:
        stream.purge()
        system.checkers.damaged(stream)


def _delete_stream(system: System, arguments: Arguments) -> None:
    name = str(arguments[0])
    if (stream := system.bus.streams.get(name)) is not None:
        stream.purge()
        system.checkers.damaged(stream)
        system.bus.delete(name)


def _setting(
    part: Callable[[System], object],
    name: str,
    draw: Callable[[random.Random, Mapping[str, int]], Arguments] = _share,
    value: float | None = None,
) -> Fault:
    """Return a fault that sets an attribute of a part of the system, to ``value`` or what is drawn, until its end."""

    def end(system: System, arguments: Arguments) -> None:
        setattr(part(system), name, type(getattr(part(system), name))())  # 0.0 or False

    return Fault(
        draw, lambda system, arguments: setattr(part(system), name, arguments[0] if value is None else value), end
    )


def _bus(system: System) -> object:
    return system.bus.faults


def _api(system: System) -> object:
    return system.frontend.faults


def _agents(system: System) -> object:
    return system.agents


def _expire_watches(system: System, arguments: Arguments) -> None:
    system.frontend.faults.oldest = system.api.revision
    system.frontend.break_watches()


def _undecodable(system: System, arguments: Arguments) -> None:
    """Replace the last message of a subject by bytes of a stranger."""
    stream = system.bus.streams.get(str(arguments[0]))
    if stream is None or not (found := stream.last_per_subject()):
        return
    subject = found[int(float(arguments[1]) * len(found))].subject
    system.bus.write_foreign(subject, NO_MESSAGE)
    system.checkers.damaged(stream)


def _delete_undecodable(system: System, arguments: Arguments) -> None:
    """Delete what cannot be decoded, as an operator does."""
    stream = system.bus.streams.get(str(arguments[0]))
    for stored in stream.last_per_subject() if stream is not None else ():
        if stream is not None and stored.data == NO_MESSAGE:
            stream.remove(stored)


def _delete_all_undecodable(system: System) -> None:
    for stream in Stream:
        _delete_undecodable(system, (stream.value,))


def _forge_claim(system: System, arguments: Arguments) -> None:
    """Add a claim of a stranger to a ledger: for a waiting pod, with a new id.

    A second claim with an id pauses its node until an operator deletes the message, by design.
    """
    nodes = sorted(node["metadata"]["name"] for node in system.api.objects("Node"))
    pods = [pod for pod in system.api.objects("Pod") if not pod["spec"].get("nodeName")]
    if not nodes or not pods:
        return
    node = nodes[int(float(arguments[0]) * len(nodes))]
    pod = pods[int(float(arguments[1]) * len(pods))]
    stream = system.bus.streams.get(Stream.LEDGER)
    if stream is None:
        return
    last = stream.last(ledger(node))
    if last is not None and last.data == NO_MESSAGE:
        return
    claims = decode_ledger(last.data).claims if last is not None else ()
    device = DeviceGrant("0", 0, 1000, 0)
    metadata = pod["metadata"]
    forged = Claim(
        id=f"forged-{stream.last_sequence}-{metadata['uid']}",
        uid=metadata["uid"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        grants=(ContainerGrant("main", 0, "gpu-share", (device,)),),
    )
    system.bus.write_foreign(ledger(node), encode(NodeLedger(node=node, claims=(*claims, forged))))


def _one_uid(system: System, arguments: Arguments) -> None:
    """Restore a pod from a backup under another name: two pods have one uid."""
    pods = [pod for pod in system.api.objects("Pod") if not pod["spec"].get("nodeName")]
    if pods:
        pod = pods[int(float(arguments[0]) * len(pods))]
        metadata = {**pod["metadata"], "name": f"{pod['metadata']['name']}-copy"}
        if system.api.peek("Pod", metadata["namespace"], metadata["name"]) is None:
            system.api.create({**pod, "metadata": metadata})


def _forge_annotations(system: System, arguments: Arguments) -> None:
    """Create a pod that requests nothing, on a node of the user's choice, with annotations that name all its cards."""
    nodes = [node for node in system.api.objects("Node") if REGISTER in annotations_of(node)]
    name = f"forged-{arguments[0]}"
    if not nodes or system.api.peek("Pod", manifests.NAMESPACE, name) is not None:
        return
    node = nodes[int(float(arguments[0]) * len(nodes))]
    cards = [item.split(",") for item in annotations_of(node)[REGISTER].split(":") if item]
    pod = manifests.pod(name, manifests.PodKind({}, {}, {manifests.FORGED: "true"}))
    given = "".join(f"{card[0]},NVIDIA,{card[2]},100:" for card in cards)
    pod["metadata"]["annotations"] |= {"volcano.sh/vgpu-ids-new": given, "volcano.sh/vgpu-time": "1780000000"}
    pod["spec"]["nodeName"] = node["metadata"]["name"]
    pod["status"] = {"phase": "Running"}
    system.api.create(pod)


def _fraction(chance: random.Random) -> float:
    """Return a number from 0 to 0.999 that a history can print."""
    return min(round(chance.random(), 3), 0.999)


def _fractions(count: int) -> Callable[[random.Random, Mapping[str, int]], Arguments]:
    return lambda chance, replicas: tuple(_fraction(chance) for _ in range(count))


def _stream_and_fraction(chance: random.Random, replicas: Mapping[str, int]) -> Arguments:
    return (*_stream(chance, replicas), _fraction(chance))


FAULTS: dict[str, Fault] = {
    "kill": Fault(_process, _kill, _start),
    "kill-all": Fault(_nothing, _kill_all, _start_all),
    "cut": Fault(lambda chance, replicas: (*_process(chance, replicas), round(chance.uniform(0.1, 20.0), 1)), _cut),
    "clock-step": Fault(
        lambda chance, replicas: (*_process(chance, replicas), chance.choice((-3600, -30, 30, 3600))), _step_clock
    ),
    "crash-bus": Fault(_nothing, _crash_bus, _start_bus),
    # Only another writer of the same subject makes a difference, within seconds.
    "lost-acks": _setting(_bus, "lost_acks")._replace(weight=2),
    "late-acks": _setting(_bus, "late_acks")._replace(weight=2),
    "lost-bus-requests": _setting(_bus, "lost_requests"),
    "lost-deliveries": _setting(_bus, "lost_deliveries"),
    "repeated-deliveries": _setting(_bus, "repeated_deliveries"),
    "silent-consumers": Fault(_share, lambda system, arguments: system.silence_consumers(float(arguments[0]))),
    "slow-reader": Fault(
        lambda chance, replicas: (
            *_process(chance, replicas),
            *chance.choice(((Stream.CLUSTER.value,), _stream(chance, replicas))),
            chance.choice((2.0, 15.0, 25.0)),
        ),
        _lag,
        _end_lag,
    ),
    "roll-back": Fault(_stream_and_writes, _roll_back, _start_bus),
    "empty-stream": Fault(_stream, _empty),
    "delete-stream": Fault(_stream, _delete_stream),
    "disk-full": _setting(_bus, "disk_full", _nothing, value=True),
    "small-payload": Fault(
        lambda chance, replicas: (chance.choice((300, 1000)),),
        lambda system, arguments: setattr(system.bus, "max_payload", int(arguments[0])),
        lambda system, arguments: system.bus.restore_payload(),
    ),
    "undecodable": Fault(_stream_and_fraction, _undecodable, _delete_undecodable),
    "forged-claim": Fault(_fractions(2), _forge_claim),
    "forged-annotations": Fault(_fractions(1), _forge_annotations),
    "api-down": _setting(_api, "down", _nothing, value=True),
    "forbidden": _setting(_api, "forbidden", _nothing, value=True),
    "lost-api-requests": _setting(_api, "lost_requests"),
    "lost-answers": _setting(_api, "lost_answers"),
    "late-api-requests": _setting(_api, "late_requests"),
    "api-errors": _setting(_api, "errors"),
    "api-conflicts": _setting(_api, "conflicts"),
    "lost-changes": _setting(_api, "lost_changes"),
    "slow-watches": _setting(_api, "lag", lambda chance, replicas: (chance.choice((0.5, 3.0, 10.0)),)),
    "broken-watches": Fault(_nothing, lambda system, arguments: system.break_watches()),
    "silent-watches": Fault(_share, lambda system, arguments: system.silence_watches(float(arguments[0]))),
    "expired-watches": Fault(_nothing, _expire_watches),
    "failing-plugins": _setting(_agents, "failures", _nothing, value=0.3),
    "ending-kubelets": _setting(_agents, "ends", _nothing, value=0.3),
    "one-uid": Fault(_fractions(1), _one_uid),
}
"""All faults by name."""


def draw(
    chance: random.Random, replicas: Mapping[str, int], size: Size, episodes: Episodes, names: Sequence[str]
) -> list[Step]:
    """Draw faults of these names."""
    steps = []
    for _ in range(chance.randint(*size.faults)):
        # Half of the faults meet what is under way.
        at = episodes.moment() if chance.random() < 0.5 else episodes.burst()
        (name,) = chance.choices(names, [FAULTS[each].weight for each in names])
        fault = FAULTS[name]
        arguments = fault.draw(chance, replicas)
        if fault.end is None:
            steps.append(Step(at, name, arguments))
        else:
            seconds = min(size.longest, chance.choice((0.5, 2.0, 10.0, 30.0)) * chance.uniform(0.5, 1.5))
            steps.append(Step(at, f"+{name}", arguments))
            steps.append(Step(round(at + seconds, 3), f"-{name}", arguments))
    return steps


def play(system: System, step: Step) -> bool:
    """Begin or end a fault; return whether the step is one."""
    fault = FAULTS.get(step.action.lstrip("+-"))
    if fault is None:
        return False
    if not step.action.startswith("-"):
        fault.begin(system, step.arguments)
    elif fault.end is not None:
        fault.end(system, step.arguments)
    return True


def end_all(system: System) -> None:
    """End every fault."""
    for fault in FAULTS.values():
        if fault.end is not None and fault.end not in (_start, _start_all):
            fault.end(system, ("",))
    system.bus.start()
    _delete_all_undecodable(system)
    _start_all(system, ())
