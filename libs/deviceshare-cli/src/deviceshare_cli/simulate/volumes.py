"""PersistentVolumes and claims of a directory as a local cluster has them before the first pod is bound. Pure."""

from collections.abc import Iterable, Iterator

from deviceshare_cluster.changes import merged
from deviceshare_cluster.interface import Object
from deviceshare_localcluster.kinds import Key, key_of
from deviceshare_localcluster.volume_rules import CLAIM, CLASS, NODE, VOLUME, Patch, VolumeRules

MAX_ROUNDS = 100
"""Each action of the controllers changes an object for good, so that a few rounds settle all."""
_KINDS = (NODE, CLASS, VOLUME, CLAIM)


def with_phases(objects: Iterable[Object]) -> dict[Key, Object]:
    """Return the claims and volumes with their status, and bound where no pod has to come first.

    Volumes that a provisioner would make are not made.
    """
    rules = VolumeRules()
    for obj in objects:
        if obj["kind"] in _KINDS:
            _put(rules, obj)
    for _ in range(MAX_ROUNDS):
        patches = [patch for dirty in rules.take() for patch in _patches(rules, *dirty)]
        for patch in patches:
            found = rules.objects[patch.kind].get((patch.namespace, patch.name))
            if found is not None:
                _put(rules, merged(found, patch.body))
        if not patches:
            break
    return {key_of(obj): obj for kind in (VOLUME, CLAIM) for obj in rules.objects[kind].values()}


def _patches(rules: VolumeRules, kind: str, key: tuple[str, str]) -> Iterator[Patch]:
    try:
        yield from (action for action in rules.actions(kind, key) if isinstance(action, Patch))
    except (LookupError, TypeError, ValueError):
        return  # as in the local cluster: an object with an unexpected form stays as it is


def _put(rules: VolumeRules, obj: Object) -> None:
    metadata = obj["metadata"]
    known = {**obj, "metadata": {"resourceVersion": "0", **metadata}}
    rules.put(obj["kind"], metadata.get("namespace", ""), metadata["name"], known)
