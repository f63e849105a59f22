"""What a bound pod holds, from its annotations: by our signature, or by what anybody wrote there."""

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
    """Return what a pod holds, and whether our signature says so; what cannot be read is appended to ``problems``.

    ``place`` are the pod's uid and its node, ``keys`` those of :mod:`deviceshare.model.signatures`.
    """
    if not annotations:
        return (), False
    ours = signed(keys, *place, annotations)
    if ours is None:
        return _named(annotations, ask, ref, problems), False
    # Beside what is signed count the pod's wishes, and what device plugins say of the devices that they made.
    held = _named({**dict(ask.annotations), **ours}, ask, ref, problems)
    return with_made(held, _named(annotations, ask, ref, [])), True


def _named(annotations: Mapping[str, str], ask: PodRequest, ref: str, problems: list[Problem]) -> Held:
    held: list[ContainerGrant] = []
    for family in FAMILIES:
        try:
            held += family.held(annotations, ask, ref)
        except FormatError as error:
            held += error.grants if isinstance(error, HeldInPart) else ()
            # Families that share an annotation find the same wrong with it.
            if error.problem not in problems:
                problems.append(error.problem)
    return tuple(held)
