"""Taints of devices and tolerations of requests."""

from collections.abc import Iterable, Sequence

from deviceshare.model.device_objects import Taint, Toleration


def tolerated(taints: Iterable[Taint], tolerations: Sequence[Toleration]) -> bool:
    """Return whether all taints that keep a device from being given are tolerated."""
    return all(
        taint.effect not in ("NoSchedule", "NoExecute") or any(_tolerates(each, taint) for each in tolerations)
        for taint in taints
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.value == taint.value
