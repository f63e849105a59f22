"""Random clusters for inter-pod constraints: few labels and values, so that many pods and nodes match."""

from random import Random
from typing import Any

Object = dict[str, Any]

KEYS = ("topology.kubernetes.io/zone", "rack", "kubernetes.io/hostname")
NAMESPACES = ("default", "team-a", "team-b")
APPS = ("db", "web", "cache")


class Generator:
    """Objects from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._pods = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def namespaces(self) -> dict[str, dict[str, str]]:
        return {
            name: {"kubernetes.io/metadata.name": name}
            | ({"env": self.random.choice(("dev", "prod"))} if self.chance(0.7) else {})
            for name in NAMESPACES
            if self.chance(0.9)
        }

    def node(self, name: str) -> Object:
        labels = {"kubernetes.io/hostname": name} if self.chance(0.9) else {}
        if self.chance(0.85):
            labels[KEYS[0]] = self.random.choice("abc")
        if self.chance(0.6):
            labels["rack"] = self.random.choice("12")
        if self.chance(0.5):
            labels["disk"] = self.random.choice(("ssd", "hdd"))
        taints = [{"key": "team", "value": "a", "effect": self.random.choice(("NoSchedule", "PreferNoSchedule"))}]
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {"taints": taints} if self.chance(0.2) else {},
            "status": {
                "allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"},
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }

    def selector(self) -> Object | None:
        if self.chance(0.06):
            return None
        if self.chance(0.06):
            return {}
        app = self.random.choice(APPS)
        return self.random.choice(
            (
                {"matchLabels": {"app": app}},
                {"matchExpressions": [{"key": "app", "operator": "In", "values": self.random.sample(APPS, 2)}]},
                {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [app]}]},
                {"matchExpressions": [{"key": "tier", "operator": self.random.choice(("Exists", "DoesNotExist"))}]},
                {"matchLabels": {"app": app, "tier": "back"}},
            )
        )

    def term(self) -> Object:
        term: Object = {"topologyKey": self.random.choice(KEYS)}
        if (selector := self.selector()) is not None:
            term["labelSelector"] = selector
        if self.chance(0.3):
            term["namespaces"] = self.random.sample(NAMESPACES, self.random.randint(1, 2))
        if self.chance(0.3):
            term["namespaceSelector"] = self.random.choice(
                (
                    {},
                    {"matchLabels": {"env": "prod"}},
                    {"matchExpressions": [{"key": "env", "operator": "DoesNotExist"}]},
                )
            )
        return term

    def constraint(self) -> Object:
        found: Object = {
            "maxSkew": self.random.randint(1, 3),
            "topologyKey": self.random.choice(KEYS),
            "whenUnsatisfiable": self.random.choice(("DoNotSchedule", "ScheduleAnyway")),
        }
        if (selector := self.selector()) is not None:
            found["labelSelector"] = selector
        if self.chance(0.3):
            found["matchLabelKeys"] = ["hash"]
        if found["whenUnsatisfiable"] == "DoNotSchedule" and self.chance(0.3):
            found["minDomains"] = self.random.randint(1, 4)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if self.chance(0.4):
                found[policy] = self.random.choice(("Honor", "Ignore"))
        return found

    def pod(self, node: str = "") -> Object:
        self._pods += 1
        name = f"p{self._pods}"
        labels = {"app": self.random.choice(APPS)} if self.chance(0.9) else {}
        if self.chance(0.5):
            labels["tier"] = self.random.choice(("back", "front"))
        if self.chance(0.5):
            labels["hash"] = self.random.choice("xy")
        affinity: Object = {}
        for kind in ("podAffinity", "podAntiAffinity"):
            if self.chance(0.25 if kind == "podAffinity" else 0.15):
                affinity[kind] = {
                    "requiredDuringSchedulingIgnoredDuringExecution": [self.term() for _ in range(1 + self.chance(0.2))]
                }
            if self.chance(0.25):
                affinity.setdefault(kind, {})["preferredDuringSchedulingIgnoredDuringExecution"] = [
                    {"weight": self.random.randint(1, 100), "podAffinityTerm": self.term()}
                    for _ in range(self.random.randint(1, 2))
                ]
        spec: Object = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "volcano"}
        if affinity:
            spec["affinity"] = affinity
        if self.chance(0.4):
            spec["topologySpreadConstraints"] = [self.constraint() for _ in range(self.random.randint(1, 3))]
        if self.chance(0.2):
            spec["nodeSelector"] = {"disk": "ssd"}
        if self.chance(0.3):
            spec["tolerations"] = [{"key": "team", "operator": "Exists"}]
        metadata: Object = {
            "name": name, "namespace": self.random.choice(NAMESPACES), "uid": f"uid-{name}", "labels": labels,
        }  # fmt: skip
        if node:
            spec["nodeName"] = node
            if self.chance(0.1):
                metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
