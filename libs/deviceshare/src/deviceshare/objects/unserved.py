"""Allocations of bound pods that device plugins have not served yet."""

from collections.abc import Mapping, Sequence

from deviceshare.families import BY_NAME, FAMILIES, SERVED
from deviceshare.model import ContainerGrant, PodRequest
from deviceshare.objects.held import held_of

_STARTING = ("Pending", "", None)
_ENDED = ("Succeeded", "Failed")


def unserved(
    annotations: Mapping[str, str], request: PodRequest, held: Sequence[ContainerGrant], phase: str | None
) -> tuple[tuple[str, str], ...]:
    """Return family and plugin key of each unserved allocation of a bound pod in a phase.

    Includes ended pods, which hold nothing, because some plugins still select them.
    """
    found: list[tuple[str, str]] = []
    if not annotations or annotations.get(SERVED) == "true":
        return ()
    starting = phase in _STARTING
    for family in FAMILIES:
        plugin = family.plugin
        if not starting and (plugin.pending_only or plugin.served(annotations)):
            continue
        grants: Sequence[ContainerGrant] = ()
        if phase not in _ENDED:
            grants = [grant for grant in held if grant.family == family.name]
        elif plugin.given_up:
            # Plugins do not serve malformed grants.
            grants, _ = held_of(family, annotations, request, "")
        if not (starting and plugin.served_all(annotations, grants)):
            found += [(family.name, key) for key in plugin.keys(grants)]
    return tuple(found)


def until_running(annotations: Mapping[str, str], phase: str | None) -> tuple[str, ...]:
    """Return the plugin keys under which plugins may select a served pod again, because it does not run yet."""
    if not annotations or annotations.get(SERVED) == "true" or phase not in _STARTING:
        return ()
    return tuple(key for family in FAMILIES for key in family.plugin.until_running(annotations))


def as_counted(unserved: Sequence[tuple[str, str]], held: Sequence[ContainerGrant]) -> tuple[tuple[str, str], ...]:
    """Restrict the result of :func:`unserved` to the grants that count.

    kubelet calls a plugin only for devices that the containers request, so other devices are never served.
    """
    return tuple(
        (name, key)
        for name in dict.fromkeys(name for name, _ in unserved)
        for key in BY_NAME[name].plugin.keys([grant for grant in held if grant.family == name])
    )
