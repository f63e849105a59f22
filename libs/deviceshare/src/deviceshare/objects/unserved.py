"""Allocations of pods that device plugins may still serve.

kubelet admits the pods of its node one after the other: it requests devices from the plugins for each container, saves
the answers of a container in its checkpoint (``kubelet_internal_checkpoint``) before the next one, and writes the first
status of the pod after the last. A kubelet that ends before the checkpoint requests the devices of the same pod again.
A status of kubelet, or the rejection of the pod, shows that it will not. Source: kubernetes v1.34, pkg/kubelet:
cm/devicemanager/manager.go (allocateContainerResources, writeCheckpoint, devicesToAllocate), kubelet.go
(HandlePodAdditions, rejectPod, SyncPod), status/status_manager.go (updateStatusInternal sets ``startTime``).
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from deviceshare.families import BY_NAME, FAMILIES, SERVED, Family, FamilyError, calling
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.model import DEVICES_DIFFER, ContainerGrant
from deviceshare.objects.pod_views import PodStatus, TemplateStatus
from deviceshare.objects.problems import Problems

_STARTING = ("Pending", "", None)
_ENDED = ("Succeeded", "Failed")
_NO_STATUSES = (b"null", b"[]")


def is_admitted(status: PodStatus | TemplateStatus | None) -> bool:
    """Return whether a pod's status shows that its kubelet has admitted or rejected it."""
    if status is None:
        return False
    if status.phase not in _STARTING or status.start_time:
        return True
    if isinstance(status, TemplateStatus):
        return bytes(status.container_statuses) not in _NO_STATUSES
    return bool(status.container_statuses)


def unserved(
    annotations: Mapping[str, str],
    held: Sequence[ContainerGrant],
    node: str,
    status: PodStatus | TemplateStatus | None,
    problems: Problems,
) -> tuple[tuple[str, str], ...]:
    """Return family and plugin key of each allocation of a bound pod that the plugins of its node may still serve.

    Includes ended pods, which hold nothing, because some plugins still select them. Devices that an admitted pod has
    in place of its own are added to ``problems``, as is the bug of a family, which has no keys then.
    """
    if not annotations or annotations.get(SERVED) == "true":
        return ()
    found: list[tuple[str, str]] = []
    phase = status.phase if status is not None else None
    if phase in _ENDED:
        return tuple((family, key) for where, family, key in _selectable(annotations) if where == node)
    admitted = is_admitted(status)
    for family in FAMILIES:
        grants = [grant for grant in held if grant.family == family.name]
        if not grants:
            continue
        try:
            with calling(family.name, "plugin.served, selectable or keys"):
                if not admitted or _may_serve(family, annotations, node, phase):
                    found += [(family.name, key) for key in family.plugin.keys(grants)]
                if admitted and (text := family.plugin.difference(annotations, grants)):
                    problems.add(DEVICES_DIFFER, f"kubelet has admitted the pod on {node}, and {text}", "")
        except FamilyError as error:
            problems.add("metadata.annotations", family.name, f"devices that the family can compare: {error}")
    return tuple(found)


def _may_serve(family: Family, annotations: Mapping[str, str], node: str, phase: str | None) -> bool:
    """Return whether a plugin may select a pod that its kubelet has admitted."""
    plugin = family.plugin
    if plugin.served(annotations) or (plugin.pending_only and phase not in _STARTING):
        return False
    return not plugin.selects or plugin.selectable(annotations)[0] == node


def selectable_elsewhere(annotations: Mapping[str, str], node: str) -> tuple[tuple[str, str, str], ...]:
    """Return node, family and plugin key of the allocations that the plugins of other nodes than the pod's may serve.

    ``node`` is '' for a pod on no node: it may have annotations of an earlier decision.
    """
    if not annotations or annotations.get(SERVED) == "true":
        return ()
    return tuple(each for each in _selectable(annotations) if each[0] != node)


def _selectable(annotations: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """Return node, family and key of what plugins select by annotations alone; families of one plugin count once."""
    found: list[tuple[str, str, str]] = []
    known: list[DevicePlugin] = []
    for family in FAMILIES:
        plugin = family.plugin
        if plugin.selects and annotations.get(plugin.selects) and plugin not in known:
            known.append(plugin)
            with suppress(FamilyError), calling(family.name, "plugin.selectable"):
                node, keys = plugin.selectable(annotations)
                found += [(node, family.name, key) for key in keys]
    return found


def until_running(annotations: Mapping[str, str], phase: str | None) -> tuple[str, ...]:
    """Return the plugin keys under which plugins may select a served pod again, because it does not run yet."""
    if not annotations or annotations.get(SERVED) == "true" or phase not in _STARTING:
        return ()
    found: list[str] = []
    for family in FAMILIES:
        if type(family.plugin).until_running is DevicePlugin.until_running:
            continue
        with suppress(FamilyError), calling(family.name, "plugin.until_running"):
            found += family.plugin.until_running(annotations)
    return tuple(found)


def as_counted(unserved: Sequence[tuple[str, str]], held: Sequence[ContainerGrant]) -> tuple[tuple[str, str], ...]:
    """Restrict the result of :func:`unserved` to the grants that count.

    kubelet calls a plugin only for devices that the containers request, so other devices are never served.
    """
    found: list[tuple[str, str]] = []
    for name in dict.fromkeys(name for name, _ in unserved):
        with suppress(FamilyError), calling(name, "plugin.keys"):
            keys = BY_NAME[name].plugin.keys([grant for grant in held if grant.family == name])
            found += [(name, key) for key in keys]
    return tuple(found)
