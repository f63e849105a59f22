"""What controllers see and return, and the objects that all of them make."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.kinds import Key
from deviceshare_localcluster.names import numbered_names
from deviceshare_localcluster.owned_objects import child, copied

ENDED = ("Succeeded", "Failed")


class PodState(NamedTuple):
    """A pod of a workload: its phase, the value of its label ``controller-revision-hash``, and its creation time."""

    phase: str
    revision: str = ""
    created: str = ""
    """In RFC 3339."""

    @property
    def ended(self) -> bool:
        """Whether the pod has ended."""
        return self.phase in ENDED


class Owned(NamedTuple):
    """What a workload owns now: the states of its pods by name, and the workloads that it controls."""

    pods: Mapping[str, PodState] = {}
    workloads: Sequence[Object] = ()
    is_taken: Callable[[str], bool] = lambda _: False
    """Whether a pod of this name in its namespace is that of another owner."""

    def count(self, phase: str) -> int:
        """Return the number of pods in a phase."""
        return sum(pod.phase == phase for pod in self.pods.values())


class Desired(NamedTuple):
    """What a workload should own: objects that are created if they are missing, such as pods, and others, also updated.

    Pods, PodGroups and workloads that it controls beyond that are deleted, except ``kept``. ``status`` are fields to
    write.
    """

    created: Sequence[Object] = ()
    updated: Sequence[Object] = ()
    kept: frozenset[Key] = frozenset()
    status: Mapping[str, Any] = {}


def pod_of(
    owner: Object,
    template: Mapping[str, Any],
    name: str,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Object:
    """Return a pod of a template, not yet admitted, with more labels and annotations."""
    found = with_metadata(template, labels, annotations)
    metadata = found["metadata"]
    of_pod = {field: metadata.get(field) for field in ("labels", "annotations")}
    return child(owner, "Pod", name, found["spec"], **of_pod)


def with_metadata(
    template: Mapping[str, Any],
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Return a copy of a pod template, or of another template with metadata, with more labels and annotations."""
    found: dict[str, Any] = copied(template)
    metadata = found.get("metadata") or {}
    for field, more in (("labels", labels), ("annotations", annotations)):
        if more:
            metadata[field] = {**(metadata.get(field) or {}), **more}
    found["metadata"] = metadata
    return found


def replica_names(
    prefix: str, count: int, pods: Mapping[str, PodState], *seed: object, is_taken: Callable[[str], bool]
) -> list[str]:
    """Return the names of ``count`` pods with random letters: those that exist and have not ended, then new ones.

    Of more pods than that, those that run stay. No new name ``is_taken``: others may have the same prefix.
    """
    alive = [name for name, pod in pods.items() if not pod.ended]
    known: list[str] = []
    names = numbered_names(prefix, *seed)
    free: list[str] = []
    while len(known) < len(alive) or len(known) + len(free) < count:
        name = next(names)
        if name not in pods:
            if not is_taken(name):
                free.append(name)
        elif not pods[name].ended:
            known.append(name)
        if len(known) + len(free) > len(pods) + count:
            break  # pods with other names, which a user made
    known.sort(key=lambda name: pods[name].phase != "Running")
    return (known + free)[:count]


def kept_pods(namespace: str, pods: Mapping[str, PodState], most: int | None = None) -> frozenset[Key]:
    """Return the keys of pods that have ended, which stay; at most ``most``, the newest."""
    ended = [(pod.created, name) for name, pod in pods.items() if pod.ended]
    if most is not None and len(ended) > most:
        ended = sorted(ended)[-most:]
    return frozenset(Key("Pod", namespace, name) for _, name in ended)


def whole(value: Any, default: int) -> int:
    """Return a whole number, the default if it is absent."""
    return default if value is None else int(value)
