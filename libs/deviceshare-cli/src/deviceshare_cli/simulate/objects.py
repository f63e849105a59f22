"""Manifests into the objects that a cluster would hold: admitted, workloads replaced by their pods and PodGroups. Pure.

The local cluster and its controllers make the same objects, one after the other.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from deviceshare.model import DEFAULT_QUEUE, InputError, Problem
from deviceshare_cluster.interface import Object
from deviceshare_localcluster import Manifest, Manifests
from deviceshare_localcluster.admission import Priorities, admit, identify, priorities_of
from deviceshare_localcluster.jobs import GROUP_ANNOTATION
from deviceshare_localcluster.kinds import KINDS, VOLCANO_JOB, Key, key_of, kind_of, known_kind
from deviceshare_localcluster.workloads import WORKLOADS, all_objects, pod_template_paths
from deviceshare_localcluster.writer import made_queue, with_own_names

POD, POD_GROUP = "Pod", "PodGroup"


class ObjectMaker:
    """Makes objects, with uids that count up: of equal jobs the earlier manifest comes first.

    Args:
        now: the creation timestamp of objects without one, RFC 3339.
        classes: the PriorityClasses of the cluster.
        makes_queues: whether a Queue that a Job or PodGroup names is made if it is missing, as a local cluster does.
    """

    def __init__(self, now: str, classes: Sequence[Object] = (), *, makes_queues: bool = False) -> None:
        self._now = now
        self._classes = {each["metadata"]["name"]: each for each in classes}
        self._makes_queues = makes_queues
        self._made = 0
        self.objects: dict[Key, Object] = {}
        """All objects that were made; the last of each key."""
        self.sources: dict[Key, Key] = {}
        """The object given, by each object that was made of it; itself for one that is no workload."""
        self.refused: list[tuple[Manifest | None, Problem]] = []
        """Manifests that the API server would refuse, and why; None for a text that cannot be read."""
        self.warned: list[tuple[str, str]] = []
        """What is valid and probably unintended: the place in a manifest, '' for none, and a sentence."""
        if makes_queues:
            self._keep(self._queue(DEFAULT_QUEUE))

    @property
    def rejected(self) -> list[str]:
        """A line for each manifest that the API server would refuse."""
        return [
            str(problem) if manifest is None else manifest.located(problem.field, str(problem))
            for manifest, problem in self.refused
        ]

    @property
    def warnings(self) -> list[str]:
        """A line for each thing that is valid and probably unintended."""
        return [f"{place}: {text}" if place else text for place, text in self.warned]

    def make(self, manifests: Manifests) -> list[Object]:
        """Return the objects of manifests, in load order; a manifest that is refused affects no other."""
        self.refused += ((None, problem) for problem in manifests.problems)
        found: dict[Key, Object] = {}
        named = with_own_names([each.object for each in manifests.manifests])
        for manifest, obj in zip(manifests.manifests, named, strict=True):
            made: dict[Key, Object] = {}
            try:
                for each in self._objects(manifest, obj):
                    made |= {key_of(one): one for one in self._kept(each)}
                self.sources |= dict.fromkeys(made, identify(obj))
            except InputError as error:
                self.refused.append((manifest, error.problem))
            found |= made
        return list(found.values())

    def _objects(self, manifest: Manifest, obj: Object) -> Iterator[Object]:
        admitted = admit(obj, uid=self._uid(), now=self._now, priorities=self._priorities)
        self.warned += ((manifest.origin.locate(field), text) for field, text in admitted.warnings)
        if kind_of(admitted.object) in (VOLCANO_JOB, POD_GROUP):
            yield from self._missing_queue(admitted.object, manifest)
        if kind_of(admitted.object) not in WORKLOADS:
            yield admitted.object
            return
        yield from all_objects(admitted.object, self._priorities.values, self._admitted)

    def _kept(self, obj: Object) -> Iterator[Object]:
        if obj["kind"] == POD_GROUP:
            yield from self._missing_queue(obj, None)
        if obj["kind"] == "PriorityClass":
            self._classes[obj["metadata"]["name"]] = obj
        self._keep(obj)
        yield obj

    def _missing_queue(self, obj: Object, manifest: Manifest | None) -> Iterator[Object]:
        """Make the queue that a Job or PodGroup names, with a warning if it did not exist."""
        name = obj["spec"]["queue"]
        if self._makes_queues and Key("Queue", "", name) not in self.objects:
            field, text = made_queue(obj)
            self.warned.append(("" if manifest is None else manifest.origin.locate(field), text))
            yield self._keep(self._queue(name))

    def _queue(self, name: str) -> Object:
        return self._admitted({"apiVersion": KINDS["Queue"].api_version, "kind": "Queue", "metadata": {"name": name}})

    def _keep(self, obj: Object) -> Object:
        self.objects[key_of(obj)] = obj
        return obj

    def _admitted(self, obj: Object) -> Object:
        return admit(obj, uid=self._uid(), now=self._now, priorities=self._priorities).object

    @property
    def _priorities(self) -> Priorities:
        return priorities_of(self._classes.values())

    def _uid(self) -> str:
        self._made += 1
        return f"simulated-{self._made:07}"


def only_kinds(manifests: Manifests, kinds: Iterable[str]) -> Iterator[str]:
    """Yield a line for each manifest of another kind than a workload or one of ``kinds``."""
    allowed = (*kinds, *WORKLOADS)
    for manifest in manifests.manifests:
        kind = known_kind(manifest.object.get("apiVersion"), manifest.object.get("kind"))
        if kind is not None and kind.name not in allowed:
            shown = ", ".join(dict.fromkeys(KINDS[name].kind for name in allowed))
            yield f"{manifest.origin.locate('kind')}: must be one of {shown}, not {kind.kind}"


def copies(manifests: Manifests, number: int, taken: Iterable[Key]) -> Iterator[Manifests]:
    """Yield copies of manifests; the pods, PodGroups and workloads of each have names that no other has.

    Other objects, such as Queues, are in the first copy alone. ``taken``: the pods and PodGroups that exist.
    """
    used = {(key.namespace, key.name) for key in taken if key.kind in (POD, POD_GROUP)}
    suffix = 1
    for copy in range(number):
        while used & (names := set(_names(manifests, suffix))):
            suffix += 1
        used |= names
        found = [_renamed(manifest, manifests, suffix) for manifest in manifests.manifests]
        if copy:
            found = [each for each in found if _is_renamed(each.object)]
        yield Manifests(found, [] if copy else manifests.problems)
        suffix += 1


def _names(manifests: Manifests, suffix: int) -> Iterator[tuple[str, str]]:
    for manifest in manifests.manifests:
        metadata = manifest.object.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        if isinstance(metadata, dict) and isinstance(name, str) and _is_renamed(manifest.object):
            yield str(metadata.get("namespace") or "default"), _suffixed(name, suffix)


def _is_renamed(obj: Object) -> bool:
    kind = known_kind(obj.get("apiVersion"), obj.get("kind"))
    return kind is not None and kind.name in (POD, POD_GROUP, *WORKLOADS)


def _suffixed(name: str, suffix: int) -> str:
    return name if suffix == 1 else f"{name}-{suffix}"


def _renamed(manifest: Manifest, among: Manifests, suffix: int) -> Manifest:
    """Return a manifest with another name, and with the other names of the PodGroups among the manifests."""
    obj = manifest.object
    metadata = obj.get("metadata")
    if suffix == 1 or not _is_renamed(obj) or not isinstance(metadata, dict):
        return manifest
    groups = {name for each in among.manifests if (name := _group_name(each.object))}
    changed = {key: value for key, value in metadata.items() if key != "uid"}
    for field in ("name", "generateName"):
        if isinstance(metadata.get(field), str):
            changed[field] = _suffixed(metadata[field].rstrip("-"), suffix) + "-" * (field == "generateName")
    renamed = {**obj, "metadata": _grouped(changed, groups, suffix)}
    for path in pod_template_paths(obj) if obj.get("kind") != POD else ():
        renamed = _replaced(renamed, path, groups, suffix)
    return manifest._replace(object=renamed)


def _group_name(obj: Object) -> str:
    """Return the name of a PodGroup, '' for another object and without a name."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if obj.get("kind") == POD_GROUP and isinstance(name, str) else ""


def _grouped(metadata: Any, groups: set[str], suffix: int) -> Any:
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    group = annotations.get(GROUP_ANNOTATION) if isinstance(annotations, dict) else None
    if not isinstance(annotations, dict) or not isinstance(group, str) or group not in groups:
        return metadata
    return {**metadata, "annotations": {**annotations, GROUP_ANNOTATION: _suffixed(group, suffix)}}


def _replaced(value: Any, path: Sequence[str | int], groups: set[str], suffix: int) -> Any:
    """Return a value in which the pod template at a path names the other PodGroup."""
    if not path:
        return {**value, "metadata": _grouped(value["metadata"], groups, suffix)} if value.get("metadata") else value
    step, rest = path[0], path[1:]
    inner = _replaced(value[step], rest, groups, suffix)
    if isinstance(step, int):
        return [*value[:step], inner, *value[step + 1 :]]
    return {**value, step: inner}
