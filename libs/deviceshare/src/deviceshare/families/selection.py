"""Restricting GPUs by model, index and id, as pod annotations request it.

Annotations: Volcano's user guides; :mod:`.volcano_gpu.wire` and :mod:`.vgpu.wire` name them.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from deviceshare.conf import SchedulerConf
from deviceshare.families import common
from deviceshare.families.card_lists import indexes_among, items
from deviceshare.families.protocol import Check, Demand
from deviceshare.families.vgpu import wire as vgpu_wire
from deviceshare.families.volcano_gpu import wire as gpu_share_wire
from deviceshare.model import FormatError, PodRequest, RequestError
from deviceshare.state import Bools, CardView, Codes

WISHES = frozenset({vgpu_wire.USE_TYPE, vgpu_wire.NOUSE_TYPE, gpu_share_wire.INDEX, gpu_share_wire.UNHEALTHY})
"""Annotations of a pod that restrict its GPUs, in all families."""

_MAX_TYPES = 4
_WORD = re.compile(r"[A-Z0-9]+")


class Wishes(NamedTuple):
    """The values of :data:`WISHES` under a configuration, as fields of :class:`~deviceshare.families.Demand`."""

    use_types: tuple[str, ...]
    nouse_types: tuple[str, ...]
    type_parts: bool
    use_indexes: tuple[int, ...]
    nouse_ids: tuple[str, ...]


def wishes(ask: PodRequest, conf: SchedulerConf) -> Wishes:
    """Return which GPUs a pod selects and which it excludes.

    ``volcano.sh/gpu-unhealthy-ids``, an annotation of nodes, excludes cards for a single pod if the pod has it.
    Raises :class:`~deviceshare.model.RequestError` for invalid indexes.
    """
    try:
        indexes = gpu_share_wire.read_index(ask.annotation(gpu_share_wire.INDEX) or "", "")
    except FormatError as error:
        wrong = error.problem
        raise RequestError("Pod", wrong.field, wrong.value, wrong.expected) from None
    return Wishes(
        use_types=items(ask.annotation(vgpu_wire.USE_TYPE)),
        nouse_types=items(ask.annotation(vgpu_wire.NOUSE_TYPE)),
        type_parts=conf.type_parts,
        use_indexes=indexes,
        nouse_ids=items(ask.annotation(gpu_share_wire.UNHEALTHY)),
    )


def restrictions(ask: PodRequest, conf: SchedulerConf, use_id: str, nouse_id: str) -> dict[str, Any]:
    """Return the restrictions of a :class:`.protocol.Demand` whose pod may name cards by id in two annotations.

    Raises RequestError as :func:`wishes`.
    """
    wished = wishes(ask, conf)
    return wished._asdict() | {
        "use_ids": items(ask.annotation(use_id)),
        "nouse_ids": wished.nouse_ids + items(ask.annotation(nouse_id)),
        "apart_group": ask.apart_group,
        "apart_rules": ask.exclusive,
    }


def type_matches(wanted: str, names: Sequence[str], *, parts: bool) -> list[bool]:
    """Return which model names a wanted type matches as a whole word, ignoring case: A10 is not an A100.

    With ``parts`` a part of a word counts where no name has the whole word.
    """
    words = _WORD.findall(wanted.upper())
    if not words:
        return [False] * len(names)
    whole = [_contains(_WORD.findall(name.upper()), words) for name in names]
    return whole if any(whole) or not parts else [wanted.upper() in name.upper() for name in names]


def parts_of_words(wanted: str, names: Sequence[str]) -> list[str]:
    """Return the model names of which a wanted type is a part of a word, if it is a whole word of none."""
    if any(type_matches(wanted, names, parts=False)):
        return []
    return [name for name, matches in zip(names, type_matches(wanted, names, parts=True), strict=True) if matches]


def _contains(words: list[str], wanted: list[str]) -> bool:
    length = len(wanted)
    return any(words[start : start + length] == wanted for start in range(len(words) - length + 1))


def types_accepted(use: Iterable[str], nouse: Iterable[str], names: Sequence[str], *, parts: bool) -> Bools:
    """Return for each model name whether a pod with these lists accepts it. Both lists count; '' matches no type.

    ``parts`` as in :func:`type_matches`.
    """
    chosen = [type_matches(wanted, names, parts=parts) for wanted in use]
    accepted = np.any(chosen, axis=0) if chosen else np.ones(len(names), dtype=np.bool_)
    for unwanted in nouse:
        accepted &= ~np.array(type_matches(unwanted, names, parts=parts), dtype=np.bool_)
    return accepted


def _accepted(demand: Demand, names: Sequence[str]) -> Bools:
    return types_accepted(demand.use_types, demand.nouse_types, names, parts=demand.type_parts)


def type_allowed(demand: Demand, view: CardView) -> Bools | None:
    """Return bool[R, D]: the cards whose model the pod accepts; None where it accepts all."""
    if not (demand.use_types or demand.nouse_types):
        return None
    found: Bools = _accepted(demand, view.type_names)[view.type]
    return found


def usable_kinds(demand: Demand, mode: str, codes: Codes) -> Bools:
    """Return bool[kinds]: usable kinds with this mode and with a type that the pod accepts."""
    kinds = codes.kinds
    found: Bools = kinds.of_mode(mode) & kinds.usable & _accepted(demand, codes.type_names)[kinds.type]
    return found


def types_asked(use: Sequence[str], nouse: Sequence[str]) -> str:
    """Return the annotations that restrict models, as the user wrote them."""
    lists = ((vgpu_wire.USE_TYPE, use), (vgpu_wire.NOUSE_TYPE, nouse))
    return " and ".join(f"{name} {first_of(wanted)}" for name, wanted in lists if wanted)


def first_of(wanted: Sequence[str]) -> str:
    """Return a list for a short text, as the user wrote it: at most four items, and the number of the others."""
    more = f" and {len(wanted) - _MAX_TYPES} more" if len(wanted) > _MAX_TYPES else ""
    return ",".join(wanted[:_MAX_TYPES]) + more


def listed(types: Iterable[str]) -> str:
    """Return types of cards for a short text: the first four by name, and the number of the others."""
    names = sorted(types)
    more = f" and {len(names) - _MAX_TYPES} more" if len(names) > _MAX_TYPES else ""
    return ", ".join(names[:_MAX_TYPES]) + more


def id_allowed(demand: Demand, view: CardView) -> Bools | None:
    """Return bool[R, D]: the cards that the pod accepts by id and index; None where it accepts all.

    A card that is both selected and excluded is excluded.
    """
    if not (demand.use_ids or demand.use_indexes or demand.nouse_ids):
        return None
    found = np.ones(view.mode.shape, dtype=np.bool_)
    if demand.use_ids:
        found &= view.with_ids(demand.use_ids)
    if demand.use_indexes:
        found &= _with_indexes(demand.use_indexes, view)
    if demand.nouse_ids:
        found &= ~_excluded(demand, view)
    return found


def _excluded(demand: Demand, view: CardView) -> Bools:
    return view.with_ids(demand.nouse_ids) | _with_indexes(indexes_among(demand.nouse_ids), view)


def _with_indexes(indexes: Collection[int], view: CardView) -> Bools:
    found = np.zeros(view.mode.shape, dtype=np.bool_)
    for row, cards in enumerate(view.cards) if indexes else ():
        for column, card in enumerate(cards):
            found[row, column] = card.index in indexes
    return found


def checks(demand: Demand, view: CardView, cards: Bools, use_ids: str = vgpu_wire.USE_ID) -> list[Check]:
    """Return the checks for cards among these (bool[R, D]) that the pod's own restrictions exclude.

    ``use_ids``: the annotation by which the pod selects ids.
    """
    found = []
    if demand.use_types or demand.nouse_types:
        refused = cards & ~_accepted(demand, view.type_names)[view.type]
        asked = types_asked(demand.use_types, demand.nouse_types)
        unknown = refused & (view.type == 0)
        types = listed(view.type_names[code] for code in np.unique(view.type[refused & ~unknown]).tolist())
        text = f"node(s) had cards of type {types} for {asked}"
        found.append(common.card_check("CardTypeMismatch", text, refused & ~unknown))
        text = f"node(s) had cards of unknown type for {asked}"
        found.append(common.card_check("CardTypeMismatch", text, unknown))
    if demand.use_ids:
        text = f"node(s) had cards other than {use_ids} {first_of(demand.use_ids)}"
        found.append(common.card_check("CardUuidMismatch", text, cards & ~view.with_ids(demand.use_ids)))
    if demand.use_indexes:
        text = f"node(s) had cards other than {gpu_share_wire.INDEX} {first_of([*map(str, demand.use_indexes)])}"
        found.append(common.card_check("CardUuidMismatch", text, cards & ~_with_indexes(demand.use_indexes, view)))
    if demand.nouse_ids:
        text = f"node(s) had cards that the pod excludes: {first_of(demand.nouse_ids)}"
        found.append(common.card_check("CardUuidMismatch", text, cards & _excluded(demand, view)))
    return found
