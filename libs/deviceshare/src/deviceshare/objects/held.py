"""The devices of a bound pod, from its annotations: signed by the binder, or unsigned."""

from collections.abc import Mapping, Sequence

from deviceshare.families import FAMILIES, HeldInPart
from deviceshare.model import ContainerGrant, FormatError, PodRequest, Problem, signed, with_made

Held = tuple[ContainerGrant, ...]


def read_held(
    annotations: Mapping[str, str],
    ask: PodRequest,
    ref: str,
    place: tuple[str, str],
    keys: Sequence[bytes],
    problems: list[Problem],
) -> tuple[Held, bool]:
    """Return the devices of a pod, and whether a signature covers them; errors are appended to ``problems``.

    ``place`` are the pod's uid and node, ``keys`` the keys of :mod:`deviceshare.model.signatures`.
    """
    if not annotations:
        return (), False
    ours = signed(keys, *place, annotations)
    if ours is None:
        return _named(annotations, ask, ref, problems), False
    # Besides the signed annotations, read the pod's preferences and the devices that device plugins made.
    held = _named({**dict(ask.annotations), **ours}, ask, ref, problems)
    return with_made(held, _named(annotations, ask, ref, [])), True


def _named(annotations: Mapping[str, str], ask: PodRequest, ref: str, problems: list[Problem]) -> Held:
    held: list[ContainerGrant] = []
    for family in FAMILIES:
        try:
            held += family.held(annotations, ask, ref)
        except FormatError as error:
            held += error.grants if isinstance(error, HeldInPart) else ()
            # Families that share an annotation report the same problem.
            if error.problem not in problems:
                problems.append(error.problem)
    return tuple(held)
