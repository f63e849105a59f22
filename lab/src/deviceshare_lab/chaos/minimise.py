"""Shortening a scenario that breaks a rule: steps are removed while the rule stays broken."""

import re
from collections.abc import Callable, Sequence

from deviceshare_lab.chaos.scenario import Scenario, Step
from deviceshare_lab.chaos.simulation import Played
from deviceshare_lab.checker import Violation

NEEDED = ("queue",)
"""Steps that are not removed: without them other pods wait, for another reason."""
Play = Callable[[Scenario], Played]


def minimise(found: Played, play: Play, tries: int = 200) -> Played:
    """Return the shortest scenario found that breaks the same rule in the same way, by delta debugging.

    ``tries``: histories that are played, at most. A fault is removed with its end.
    """
    assert found.violation is not None
    sought, best = _kind(found.violation), found
    needed = [step for step in found.scenario.steps if step.action in NEEDED]
    parts = _parts([step for step in found.scenario.steps if step.action not in NEEDED])
    size = max(1, len(parts) // 2)
    while tries > 0:
        removed, at = False, 0
        while at < len(parts) and tries > 0:
            kept = parts[:at] + parts[at + size :]
            tries -= 1
            played = play(best.scenario._replace(steps=_steps([needed, *kept])))
            if played.violation is not None and _kind(played.violation) == sought:
                parts, best, removed = kept, played, True
            else:
                at += size
        if size == 1 and not removed:
            break
        size = max(1, size // 2)
    return best


def _kind(violation: Violation) -> tuple[str, str]:
    """Return the rule of a violation and what it says first, without numbers."""
    return violation.rule, re.sub(r"[0-9a-f]*[0-9][0-9a-f]*", "#", violation.text.partition(";")[0])


def _parts(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the steps, each fault with its end as one part."""
    parts: list[list[Step]] = []
    begun: dict[tuple[object, ...], list[Step]] = {}
    for step in steps:
        key = step.action[1:], *step.arguments
        if step.action.startswith("-") and key in begun:
            begun.pop(key).append(step)
            continue
        parts.append([step])
        if step.action.startswith("+"):
            begun[key] = parts[-1]
    return parts


def _steps(parts: Sequence[Sequence[Step]]) -> tuple[Step, ...]:
    return tuple(sorted((step for part in parts for step in part), key=lambda step: step.at))
