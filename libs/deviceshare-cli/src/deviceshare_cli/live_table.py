"""The pods of the configured schedulers, updated by a watch, and the lines to print when one changes."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from deviceshare_cluster.interface import Change, ChangeType
from deviceshare_metrics.api import PodDevice

from deviceshare_cli.pods import PodView, read_pod, shown_devices
from deviceshare_cli.waiting_reasons import WaitingReason, with_reason

Held = Callable[[bytes], tuple[PodDevice, ...]]
"""Returns the devices in the annotations of a bound pod, given as JSON."""


class LiveTable:
    """The pods whose scheduler name is one of ``schedulers``."""

    def __init__(self, schedulers: Iterable[str], held: Held) -> None:
        self._schedulers = frozenset(schedulers)
        self._held = held
        self.pods: dict[str, PodView] = {}
        """By ``namespace/name``."""
        self.reasons: Mapping[str, WaitingReason] = {}
        """Why pods wait today, by uid; others have the reason of their condition."""
        self.revision = 0
        """The last revision of any watched kind."""
        self.placed: dict[str, str] = {}
        """The lines printed for placed pods, the latest last; by ``namespace/name``."""

    def take(self, changes: Sequence[object]) -> list[str]:
        """Apply changes of the cluster and return the lines to print."""
        lines = []
        for change in changes:
            if not isinstance(change, Change):
                continue
            self.revision = max(self.revision, change.revision)
            if change.kind == "Pod" and (line := self._take(change)):
                lines.append(line)
        return lines

    @property
    def bound(self) -> int:
        """Number of pods that are bound or have ended."""
        return sum(1 for pod in self.pods.values() if pod.node or pod.ended)

    @property
    def waiting(self) -> list[PodView]:
        """The pending pods, with or without a reason."""
        return [with_reason(pod, self.reasons) for pod in self.pods.values() if not pod.node and not pod.ended]

    @property
    def unanswered(self) -> list[PodView]:
        """The pending pods without a reason."""
        return [pod for pod in self.pods.values() if not pod.answered]

    def _take(self, change: Change) -> str | None:
        ref = f"{change.namespace}/{change.name}"
        before = self.pods.get(ref)
        if change.type is ChangeType.DELETED:
            self.placed.pop(ref, None)
            return f"{ref} deleted" if self.pods.pop(ref, None) else None
        pod = read_pod(change.raw)
        if pod.scheduler not in self._schedulers:
            return None
        self.pods[ref] = pod
        if before is not None and before.uid != pod.uid:  # deleted and created again between two changes
            before = None
            self.placed.pop(ref, None)
        if pod.node and (before is None or not before.node):
            devices = shown_devices(self._held(change.raw))
            self.placed[ref] = line = f"{ref} -> {pod.node}" + (f": {devices}" if devices else "")
            return line
        if not pod.node and pod.reason and (before is None or before.reason != pod.reason):
            return f"{ref}: {pod.reason}"
        return None
