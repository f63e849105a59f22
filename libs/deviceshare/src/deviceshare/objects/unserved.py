"""The keys by which device plugins may still choose a bound pod, because they have not served it yet."""

from collections.abc import Mapping, Sequence

from deviceshare.families import BY_NAME, FAMILIES, SERVED, Family, HeldInPart
from deviceshare.model import ContainerGrant, FormatError, PodRequest

_STARTING = ("Pending", "", None)
_ENDED = ("Succeeded", "Failed")


def unserved(
    annotations: Mapping[str, str], ask: PodRequest, held: Sequence[ContainerGrant], phase: str | None
) -> tuple[tuple[str, str], ...]:
    """Return pairs of family and key by which plugins may choose a bound pod in a phase, with these devices.

    A pod that has ended holds nothing, but some plugins consider it all the same.
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
            grants = _held_by(family, annotations, ask)
        if not (starting and plugin.served_all(annotations, grants)):
            found += [(family.name, key) for key in plugin.keys(grants)]
    return tuple(found)


def until_running(annotations: Mapping[str, str], phase: str | None) -> tuple[str, ...]:
    """Return the keys by which plugins may choose a served pod again because it does not run yet."""
    if not annotations or annotations.get(SERVED) == "true" or phase not in _STARTING:
        return ()
    return tuple(key for family in FAMILIES for key in family.plugin.until_running(annotations))


def as_counted(unserved: Sequence[tuple[str, str]], held: Sequence[ContainerGrant]) -> tuple[tuple[str, str], ...]:
    """Return the pairs of :func:`unserved` that remain if only ``held`` counts of the devices in the annotations.

    kubelet requests from a plugin what the containers request, so other devices are never handed out.
    """
    return tuple(
        (name, key)
        for name in dict.fromkeys(name for name, _ in unserved)
        for key in BY_NAME[name].plugin.keys([grant for grant in held if grant.family == name])
    )


def _held_by(family: Family, annotations: Mapping[str, str], ask: PodRequest) -> Sequence[ContainerGrant]:
    """Return the devices that an ended pod held; no plugin hands out malformed ones."""
    try:
        return family.held(annotations, ask, "")
    except HeldInPart as error:
        return error.grants
    except FormatError:
        return ()
