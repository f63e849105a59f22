"""Decoding of the devices that a bound pod holds, from its signed or unsigned annotations."""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec.structs import replace

from deviceshare.families import FAMILIES, Family, HeldInPart
from deviceshare.model import ContainerGrant, FormatError, PodRequest, Problem, signature_covers, signed, with_made

Held = tuple[ContainerGrant, ...]

MAX_DEVICES = 1024
"""Devices that the annotations of a pod name; further ones do not count."""
MAX_ALONE = 256
"""Annotations of a pod that :func:`held_by_any_reading` reads alone."""
_FEW_NAMES = 64
"""Annotations of a pod for whose names the families are remembered."""


def read_held(
    annotations: Mapping[str, str],
    request: PodRequest,
    ref: str,
    place: tuple[str, str],
    keys: Sequence[bytes],
    problems: list[Problem],
) -> tuple[Held, bool]:
    """Return the grants that a pod holds, and whether our signature covers them. Appends errors to ``problems``.

    ``place``: the pod's uid and node; ``keys``: the keys of :mod:`deviceshare.model.signatures`.
    """
    if not annotations:
        return (), False
    ours = signed(keys, *place, annotations)
    if ours is None:
        return _bounded(_decode(annotations, request, ref, problems), ref, problems), False
    # Unsigned annotations count only as part of the request, and for devices that device plugins created.
    trusted = {**dict(request.annotations), **ours}
    held = _decode(trusted, request, ref, problems)
    if _families_reading([name for name in annotations if name not in trusted]):
        held = with_made(held, _decode(annotations, request, ref, []))
    return held, True


def held_by_any_reading(
    annotations: Mapping[str, str], request: PodRequest, ref: str
) -> tuple[Held, tuple[Problem, ...]]:
    """Return what a bound pod may hold, for readers without the keys: more than :func:`read_held`, never less.

    The owner of a pod can write annotations beside those of its binding, to make these unreadable or to hide devices
    behind many others. Therefore all grants count of every reading: all annotations together, those that the signature
    covers, whether it is valid or not, and each annotation alone that a family reads. The problems are those of all
    readings; more annotations than :data:`MAX_ALONE` are one as well, and the others are not read alone.
    """
    covered = {name: annotations[name] for name in signature_covers(annotations) if name in annotations}
    alone = [{name: value} for name, value in annotations.items() if _families_reading([name])]
    held: list[ContainerGrant] = []
    found: dict[Problem, None] = {}
    for reading in (annotations, {**dict(request.annotations), **covered}, *alone[:MAX_ALONE]):
        problems: list[Problem] = []
        held += _decode(reading, request, ref, problems)
        found |= dict.fromkeys(problems)
    if len(alone) > MAX_ALONE:
        value, expected = f"{len(alone)} annotations of device families", f"at most {MAX_ALONE}"
        found[Problem(f"Pod {ref}", "metadata.annotations", value, expected)] = None
    return tuple(held), tuple(found)


def _decode(annotations: Mapping[str, str], request: PodRequest, ref: str, problems: list[Problem]) -> Held:
    held: list[ContainerGrant] = []
    for family in _families_reading(annotations):
        grants, problem = held_of(family, annotations, request, ref)
        held += grants
        # Families that share an annotation report the same problem.
        if problem is not None and problem not in problems:
            problems.append(problem)
    return tuple(held)


def _bounded(held: Held, ref: str, problems: list[Problem]) -> Held:
    """Return the first devices that the annotations of a pod name, which its owner writes."""
    devices = sum(len(grant.devices) for grant in held)
    if devices <= MAX_DEVICES:
        return held
    expected = f"at most {MAX_DEVICES} devices"
    problems.append(Problem(f"Pod {ref}", "metadata.annotations", f"{devices} devices", expected))
    kept, left = [], MAX_DEVICES
    for grant in held:
        kept.append(replace(grant, devices=grant.devices[:left]))
        left -= len(kept[-1].devices)
    return tuple(grant for grant in kept if grant.devices)


def _families_reading(names: Iterable[str]) -> tuple[Family, ...]:
    """Return the families that read annotations with one of these names, remembered if these are few."""
    names = tuple(names)
    return (_readers if len(names) <= _FEW_NAMES else _readers.__wrapped__)(tuple(FAMILIES), names)


@lru_cache(maxsize=1024)
def _readers(families: tuple[Family, ...], names: tuple[str, ...]) -> tuple[Family, ...]:
    """Return the families that read annotations with one of these names; pods of one template have the same names."""
    return tuple(family for family in families if any(_matches(family.held_annotations, name) for name in names))


def _matches(patterns: frozenset[str], name: str) -> bool:
    for pattern in patterns:
        start, star, end = pattern.partition("*")
        if name == pattern or (star and name.startswith(start) and name.endswith(end)):
            return True
    return False


def held_of(
    family: Family, annotations: Mapping[str, str], request: PodRequest, ref: str
) -> tuple[Held, Problem | None]:
    """Return the grants of one family that a pod holds, and the problem of malformed annotations."""
    try:
        return family.held(annotations, request, ref), None
    except FormatError as error:
        return error.grants if isinstance(error, HeldInPart) else (), error.problem
