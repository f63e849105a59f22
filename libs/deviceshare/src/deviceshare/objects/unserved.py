"""Allocations of bound pods that device plugins have not served yet."""

from collections.abc import Mapping, Sequence
from contextlib import suppress

from deviceshare.families import BY_NAME, FAMILIES, SERVED, Family, FamilyError, calling
from deviceshare.families.device_plugin import DevicePlugin
from deviceshare.model import ContainerGrant, PodRequest
from deviceshare.objects.held import held_of
from deviceshare.objects.problems import Problems

_STARTING = ("Pending", "", None)
_ENDED = ("Succeeded", "Failed")


def unserved(
    annotations: Mapping[str, str],
    request: PodRequest,
    held: Sequence[ContainerGrant],
    phase: str | None,
    problems: Problems,
) -> tuple[tuple[str, str], ...]:
    """Return family and plugin key of each unserved allocation of a bound pod in a phase.

    Includes ended pods, which hold nothing, because some plugins still select them. A family with a bug has no keys,
    and the bug is added to ``problems``.
    """
    found: list[tuple[str, str]] = []
    if not annotations or annotations.get(SERVED) == "true":
        return ()
    starting = phase in _STARTING
    holding = {grant.family for grant in held} if phase not in _ENDED else None
    for family in FAMILIES:
        grants: Sequence[ContainerGrant] = ()
        if holding is not None:
            if family.name not in holding:
                continue
            grants = [grant for grant in held if grant.family == family.name]
        elif family.plugin.given_up:
            # Plugins do not serve malformed grants.
            grants, _ = held_of(family, annotations, request, "")
        if not grants:
            continue
        try:
            with calling(family.name, "plugin.served, served_all or keys"):
                found += [(family.name, key) for key in _unserved_keys(family, annotations, grants, starting=starting)]
        except FamilyError as error:
            problems.add("metadata.annotations", family.name, f"devices that the family can compare: {error}")
    return tuple(found)


def _unserved_keys(
    family: Family, annotations: Mapping[str, str], grants: Sequence[ContainerGrant], *, starting: bool
) -> tuple[str, ...]:
    plugin = family.plugin
    if not starting and (plugin.pending_only or plugin.served(annotations)):
        return ()
    return () if starting and plugin.served_all(annotations, grants) else plugin.keys(grants)


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
