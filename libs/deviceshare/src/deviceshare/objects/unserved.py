"""What device plugins may still take a pod for: it is bound, and they have not served it yet."""

from collections.abc import Mapping, Sequence

from deviceshare.claims import ContainerGrant
from deviceshare.errors import FormatError
from deviceshare.facts import PodAsk
from deviceshare.families import BY_NAME, FAMILIES
from deviceshare.families.device_plugin import SERVED
from deviceshare.families.protocol import Family, HeldInPart

_ENDED = ("Succeeded", "Failed")


def unserved(
    annotations: Mapping[str, str], ask: PodAsk, held: Sequence[ContainerGrant], phase: str | None
) -> tuple[tuple[str, str], ...]:
    """Return families, and the words of their plugins, for a bound pod in a phase that holds these devices.

    A pod that has ended holds nothing, but there are plugins that look at it all the same.
    """
    found: list[tuple[str, str]] = []
    if not annotations or annotations.get(SERVED) == "true":
        return ()
    for family in FAMILIES:
        plugin = family.plugin
        if plugin.served(annotations) or (plugin.pending_only and phase not in ("Pending", "", None)):
            continue
        grants: Sequence[ContainerGrant] = ()
        if phase not in _ENDED:
            grants = [grant for grant in held if grant.family == family.name]
        elif plugin.given_up:
            grants = _held_by(family, annotations, ask)
        found += [(family.name, key) for key in plugin.keys(grants)]
    return tuple(found)


def as_counted(unserved: Sequence[tuple[str, str]], held: Sequence[ContainerGrant]) -> tuple[tuple[str, str], ...]:
    """Return what of :func:`unserved` is left where only ``held`` counts of what the annotations name.

    kubelet asks a plugin for what the containers ask: nobody ever serves a pod with what it does not ask.
    """
    return tuple(
        (name, key)
        for name in dict.fromkeys(name for name, _ in unserved)
        for key in BY_NAME[name].plugin.keys([grant for grant in held if grant.family == name])
    )


def _held_by(family: Family, annotations: Mapping[str, str], ask: PodAsk) -> Sequence[ContainerGrant]:
    """Return what an ended pod held; what cannot be read no plugin hands out."""
    try:
        return family.held(annotations, ask, "")
    except HeldInPart as error:
        return error.grants
    except FormatError:
        return ()
