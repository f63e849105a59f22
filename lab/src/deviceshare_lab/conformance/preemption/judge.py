"""What may be said of victims by the objects alone. It shares no code with the scheduler."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import yaml

from deviceshare_lab.conformance.preemption.player import Preempted
from deviceshare_lab.conformance.preemption.recorded import Case, reference
from deviceshare_lab.conformance.sessions.recorded import Object

_SUFFIXES = {"": 1.0, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30}
_HOURS = {"h": 3600.0, "m": 60.0, "s": 1.0}
_TRUE = ("1", "t", "T", "true", "TRUE", "True")
_ALMOST = 1.0
"""Thousandths that rounding may make of amounts that queues deserve."""

Amounts = Counter[str]
"""Thousandths of each resource, bytes of memory."""


def forbidden(case: Case, preempted: Sequence[Preempted], now: float) -> list[str]:
    """Return every victim, or set of victims, that may not be evicted; ``now``: unix seconds."""
    judge = _Judge(case, now)
    return [text for each in preempted for text in judge.of_decision(each)] + list(judge.of_all(preempted))


class _Judge:
    def __init__(self, case: Case, now: float) -> None:
        self._case, self._now = case, now
        self._pods = {reference(pod): pod for pod in case.pods or ()}
        self._groups = {reference(group): group for group in case.podgroups or ()}
        self._classes = {each["metadata"]["name"]: int(each["value"]) for each in case.priorityclasses or ()}
        self._queues = {each["metadata"]["name"]: each["spec"] for each in case.queues or ()}
        conf = yaml.safe_load(case.conf)
        self._plugins = {plugin["name"] for tier in conf["tiers"] for plugin in tier["plugins"]}
        self._used = {name: Counter(each["allocated"]) for name, each in case.volcano.queues.items()}

    def of_decision(self, each: Preempted) -> Iterator[str]:
        """Yield what is wrong with the victims of one decision, each alone."""
        for name in each.victims:
            why = self._protected(self._pods[name], each)
            if why:
                yield f"{name} may not be evicted for {each.group}: {why}"
        if each.action == "reclaim":
            yield from self._reclaimed(each)
        for name in each.placed:
            self._charge(self._pods[name], 1)
        for name in each.victims if each.action != "reclaim" else ():
            self._charge(self._pods[name], -1)

    def of_all(self, preempted: Sequence[Preempted]) -> Iterator[str]:
        """Yield what is wrong with all victims together."""
        victims = [name for each in preempted for name in each.victims]
        for name, number in Counter(victims).items():
            if number > 1:
                yield f"{name} went {number} times"
        placed = {name for each in preempted for name in each.placed}
        for group in {self._group(self._pods[name]) for name in victims} - {""}:
            members = [name for name, pod in self._pods.items() if self._group(pod) == group]
            left = [name for name in members if (self._runs(name) and name not in victims) or name in placed]
            if 0 < len(left) < self._groups[group]["spec"].get("minMember", 1):
                yield f"{group} keeps {len(left)} pods, fewer than its minimum"
        for budget in self._case.pdbs:
            yield from self._over_budget(budget, victims)

    def _runs(self, name: str) -> bool:
        return bool(self._pods[name]["spec"].get("nodeName"))

    def _protected(self, pod: Object, each: Preempted) -> str:
        metadata, spec = pod["metadata"], pod["spec"]
        annotations, labels = metadata.get("annotations") or {}, metadata.get("labels") or {}
        if not spec.get("nodeName") or pod["status"].get("phase") != "Running" or metadata.get("deletionTimestamp"):
            return "it does not run"
        key = "volcano.sh/preemptable"
        if annotations.get(key, labels.get(key, "true")) not in _TRUE:
            return "it is not preemptable"
        key = "volcano.sh/cooldown-time"
        cooldown = labels.get(key, annotations.get(key))
        if "cdp" in self._plugins and cooldown and self._now - _since(pod) <= _seconds(cooldown):
            return "it is in its cooldown"
        critical = metadata["namespace"] == "kube-system" or spec.get("priorityClassName", "").startswith("system-")
        if "conformance" in self._plugins and critical:
            return "it is critical"
        mine, theirs = self._queue(self._group(pod)), self._queue(each.group)
        if each.action == "reclaim":
            if mine == theirs or self._queues[mine].get("reclaimable") is False:
                return f"its queue {mine} is not reclaimed"
            return ""
        if mine != theirs:
            return f"it is in queue {mine}"
        if self._group(pod) == each.group:
            lower = spec.get("priority", 0) < min(self._pods[name]["spec"].get("priority", 0) for name in each.placed)
        else:
            lower = self._priority(self._group(pod)) < self._priority(each.group)
        return "" if lower else "its priority is not lower"

    def _reclaimed(self, each: Preempted) -> Iterator[str]:
        """Yield the queues that lose what they deserve, or get more than they deserve."""
        deserved = {name: queue["deserved"] for name, queue in self._case.volcano.queues.items()}
        by_queue: dict[str, list[Object]] = {}
        for name in each.victims:
            pod = self._pods[name]
            by_queue.setdefault(self._queue(self._group(pod)), []).append(pod)
        for queue, pods in by_queue.items():
            if not self._loses(queue, pods, deserved[queue]):
                yield f"queue {queue} loses {[reference(pod) for pod in pods]}, though it deserves them"
            for pod in pods:
                self._charge(pod, -1)
            kept = {name: _amount(name, text) for name, text in self._guarantee(queue).items()}
            lost = {name for pod in pods for name in _asked(pod)}
            if any(self._used[queue][name] < amount for name, amount in kept.items() if name in lost):
                yield f"queue {queue} has less than its guarantee"
        taker = self._queue(each.group)
        asked = sum((_asked(self._pods[name]) for name in each.placed), Counter[str]())
        for name, amount in asked.items():
            if name in deserved[taker] and self._used[taker][name] + amount > deserved[taker][name] + _ALMOST:
                yield f"queue {taker} gets more {name} than it deserves"

    def _loses(self, queue: str, pods: Sequence[Object], deserved: Mapping[str, float]) -> bool:
        """Return whether the queue may lose the pods in some order."""
        if not pods:
            return True
        used = self._used[queue]
        for at, pod in enumerate(pods):
            asked = _asked(pod)
            above = [name for name in asked if name in deserved and used[name] > deserved[name]]
            if above or not deserved.keys() & asked.keys():
                self._charge(pod, -1)
                found = self._loses(queue, [*pods[:at], *pods[at + 1 :]], deserved)
                self._charge(pod, 1)
                if found:
                    return True
        return False

    def _over_budget(self, budget: Object, victims: Iterable[str]) -> Iterator[str]:
        spec, namespace = budget["spec"], budget["metadata"].get("namespace", "default")
        wanted = spec["selector"].get("matchLabels", {}).items()
        selected = [
            name
            for name, pod in self._pods.items()
            if pod["metadata"].get("namespace", "default") == namespace
            and wanted <= (pod["metadata"].get("labels") or {}).items()
        ]
        gone = len(set(victims) & set(selected))
        running = sum(map(self._runs, selected))
        if gone and "minAvailable" in spec and running - gone < spec["minAvailable"]:
            yield f"{reference(budget)} has {running - gone} pods available"
        if gone and "maxUnavailable" in spec and len(selected) - running + gone > spec["maxUnavailable"]:
            yield f"{reference(budget)} has {len(selected) - running + gone} pods unavailable"

    def _group(self, pod: Object) -> str:
        name = (pod["metadata"].get("annotations") or {}).get("scheduling.k8s.io/group-name")
        return f"{pod['metadata'].get('namespace', 'default')}/{name}" if name else ""

    def _queue(self, group: str) -> str:
        return str(self._groups[group]["spec"].get("queue", "default"))

    def _priority(self, group: str) -> int:
        return self._classes.get(self._groups[group]["spec"].get("priorityClassName", ""), 0)

    def _guarantee(self, queue: str) -> Mapping[str, Any]:
        return (self._queues[queue].get("guarantee") or {}).get("resource") or {}

    def _charge(self, pod: Object, sign: int) -> None:
        used = self._used.get(self._queue(self._group(pod)))
        if used is not None:
            used.update({name: sign * amount for name, amount in _asked(pod).items()})


def _asked(pod: Object) -> Amounts:
    found: Amounts = Counter()
    for container in pod["spec"]["containers"]:
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            found[name] += _amount(name, text)
    return found


def _amount(name: str, text: Any) -> int:
    match = re.fullmatch(r"([0-9.]+)([a-zA-Z]*)", str(text))
    assert match is not None, json.dumps(text)
    return round(float(match[1]) * _SUFFIXES[match[2]] * (1 if name == "memory" else 1000))


def _seconds(text: str) -> float:
    return sum(float(number) * _HOURS[unit] for number, unit in re.findall(r"([0-9.]+)([hms])", text))


def _since(pod: Object) -> float:
    for condition in pod["status"].get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "True":
            return datetime.fromisoformat(condition["lastTransitionTime"]).timestamp()
    return 0.0
