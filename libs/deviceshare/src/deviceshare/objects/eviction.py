"""What a pod says about evictions: of itself for other pods, and of others for it.

Source: Volcano pkg/scheduler/api/pod_info.go (GetPodPreemptable), pkg/scheduler/plugins/cdp.
"""

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from deviceshare.conf import seconds_of
from deviceshare.model import LARGEST, PodFact, PodUid
from deviceshare.objects.lenient import seconds
from deviceshare.objects.pod_views import PodCondition, PodSpec, TemplateSpec
from deviceshare.objects.problems import Problems

PREEMPTABLE = "volcano.sh/preemptable"
"""Annotation, or else label; an invalid value counts as false."""
COOLDOWN = "volcano.sh/cooldown-time"
"""Label, or else annotation; an invalid value protects nothing, as in Volcano, and is a problem of a waiting pod."""

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_NEVER = "Never"
_USUAL = PodFact(uid=PodUid(""), namespace="", name="")
"""A pod that says nothing. A field is left out of messages only if it is the very object of the default."""
_CONDITIONS = msgspec.json.Decoder(list[PodCondition] | None)


class EvictionTerms(NamedTuple):
    """The fields of the same names of :class:`deviceshare.model.PodFact`."""

    preemptable: bool
    cooldown: float
    scheduled_at: float
    grace: float
    never_preempts: bool


def read_eviction(
    annotations: Mapping[str, str],
    labels: Mapping[str, str],
    spec: PodSpec | TemplateSpec,
    conditions: list[PodCondition] | msgspec.Raw | None,
    problems: Problems,
) -> EvictionTerms:
    """Return what a pod says; ``conditions``: None unless it is bound."""
    grace = spec.termination_grace_period_seconds
    cooldown = _cooldown(labels.get(COOLDOWN, annotations.get(COOLDOWN)))
    return EvictionTerms(
        preemptable=annotations.get(PREEMPTABLE, labels.get(PREEMPTABLE, "true")) in _TRUE,
        cooldown=cooldown,
        scheduled_at=_scheduled_at(conditions, problems) if cooldown else _USUAL.scheduled_at,
        grace=_USUAL.grace if grace in (None, _USUAL.grace) else float(min(max(grace, 0), LARGEST)),
        never_preempts=spec.preemption_policy == _NEVER,
    )


def _cooldown(text: str | None) -> float:
    return _USUAL.cooldown if text is None else min(seconds_of(text) or 0.0, float(LARGEST))


def _scheduled_at(conditions: list[PodCondition] | msgspec.Raw | None, problems: Problems) -> float:
    if isinstance(conditions, msgspec.Raw):
        try:
            conditions = _CONDITIONS.decode(conditions) or []
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            problems.add("status.conditions", "", "a list of conditions")
            return _USUAL.scheduled_at
    for condition in conditions or ():
        if condition.type == "PodScheduled" and condition.status == "True":
            return seconds(condition.last_transition_time, "status.conditions[PodScheduled]", problems)
    return _USUAL.scheduled_at
