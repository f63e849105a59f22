"""Random clusters for volumes: few names and labels, so that many claims, volumes and nodes match."""

from random import Random
from typing import Any

from support.manifest import manifest

Object = dict[str, Any]

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
NAMESPACES = ("default", "team-a")
CLASSES = ("fast", "local", "zonal", "now", "gone")
MODES = ("ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod")
DRIVERS = ("csi.example.com", "disk.example.com")
CLAIMS, VOLUMES, NODES = 6, 7, 6


class VolumeGenerator:
    """Objects from a seed. Sizes of volumes differ: between equal ones the order of the API server decides."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._pods = 0

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def node(self, name: str) -> Object:
        labels = {HOSTNAME: name, "gen": str(self.random.randint(1, 4))}
        if self.chance(0.8):
            labels[self.random.choice((ZONE, ZONE, ZONE, OLD_ZONE))] = self.random.choice("abc")
        return manifest(
            "Node",
            {"name": name, "labels": labels},
            status={"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110"}},
        )

    def csi_node(self, name: str) -> Object:
        drivers = [
            {"name": driver} | ({"allocatable": {"count": self.random.randint(0, 3)}} if self.chance(0.8) else {})
            for driver in DRIVERS
            if self.chance(0.7)
        ]
        return manifest("CSINode", {"name": name}, "storage.k8s.io/v1", spec={"drivers": drivers})

    def storage_class(self, name: str) -> Object:
        found: Object = manifest(
            "StorageClass",
            {"name": name},
            provisioner="kubernetes.io/no-provisioner" if name == "local" else self.random.choice(DRIVERS),
            volumeBindingMode="Immediate" if name == "now" else "WaitForFirstConsumer",
        )
        if name == "zonal":
            zones = self.random.sample("abc", self.random.randint(1, 2))
            found["allowedTopologies"] = [{"matchLabelExpressions": [{"key": ZONE, "values": zones}]}]
            if self.chance(0.3):
                found["allowedTopologies"].append({"matchLabelExpressions": [{"key": HOSTNAME, "values": ["n1"]}]})
        return found

    def claim(self, namespace: str, name: str) -> Object:
        metadata: Object = {"namespace": namespace, "name": name, "uid": f"{namespace}-{name}", "annotations": {}}
        spec: Object = {
            "accessModes": [self.random.choice(MODES)],
            "resources": {"requests": {"storage": f"{self.random.randint(1, 4)}Gi"}},
        }
        if self.chance(0.95):
            spec["storageClassName"] = self.random.choice((*CLASSES[:3], *CLASSES))
        if self.chance(0.5):
            spec["volumeName"] = f"v{self.random.randint(0, VOLUMES)}"
            if self.chance(0.93):
                metadata["annotations"]["pv.kubernetes.io/bind-completed"] = "yes"
        elif self.chance(0.1):
            metadata["annotations"]["volume.kubernetes.io/selected-node"] = f"n{self.random.randint(0, NODES)}"
        if self.chance(0.1):
            spec["selector"] = {"matchLabels": {"speed": "high"}}
        if self.chance(0.1):
            spec["volumeMode"] = "Block"
        if self.chance(0.03):
            metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        if name.startswith("p") and self.chance(0.9):
            owner = name.partition("-")[0]
            metadata["ownerReferences"] = [{"kind": "Pod", "name": owner, "uid": f"uid-{owner}", "controller": True}]
        phase = "Lost" if self.chance(0.03) else "Pending"
        return {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec,
            "status": {"phase": phase},
        }  # fmt: skip

    def volume(self, name: str) -> Object:
        number = int(name[1:])
        labels = {}
        if self.chance(0.3):
            labels[self.random.choice((ZONE, OLD_ZONE))] = self.random.choice(("a", "b", "a__b", "b__ c", "a__"))
        if self.chance(0.3):
            labels["speed"] = self.random.choice(("high", "low"))
        spec: Object = {
            "accessModes": self.random.sample(MODES, self.random.randint(1, 3)),
            "capacity": {"storage": f"{1 + number + 10 * self.chance(0.2)}Gi"},
            "storageClassName": self.random.choice(CLASSES[:3]),
        }
        if self.chance(0.7):
            spec["csi"] = {"driver": self.random.choice(DRIVERS), "volumeHandle": f"h{self.random.randint(0, 5)}"}
        if self.chance(0.5):
            spec["nodeAffinity"] = {
                "required": {"nodeSelectorTerms": [self.term() for _ in range(1 + self.chance(0.3))]}
            }
        if self.chance(0.15):
            namespace, claim = self.random.choice(NAMESPACES), f"c{self.random.randint(0, CLAIMS)}"
            spec["claimRef"] = {"namespace": namespace, "name": claim}
            if self.chance(0.5):
                spec["claimRef"]["uid"] = self.random.choice((f"{namespace}-{claim}", "another"))
        if self.chance(0.1):
            spec["volumeMode"] = "Block"
        phase = "Available" if self.chance(0.8) else "Released"
        return {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "labels": labels}, "spec": spec,
            "status": {"phase": phase},
        }  # fmt: skip

    def term(self) -> Object:
        hosts = [f"n{number}" for number in self.random.sample(range(NODES), self.random.randint(1, 3))]
        zones = self.random.sample("abc", self.random.randint(1, 2))
        expressions = self.random.choice(
            (
                [{"key": HOSTNAME, "operator": "In", "values": hosts}],
                [{"key": HOSTNAME, "operator": "NotIn", "values": hosts}],
                [{"key": ZONE, "operator": "In", "values": zones}],
                [{"key": ZONE, "operator": self.random.choice(("Exists", "DoesNotExist"))}],
                [{"key": "gen", "operator": self.random.choice(("Gt", "Lt")), "values": ["2"]}],
                [
                    {"key": ZONE, "operator": "In", "values": zones},
                    {"key": "gen", "operator": "NotIn", "values": ["1"]},
                ],
            )
        )
        return {"matchExpressions": expressions}

    def pod(self, node: str = "") -> Object:
        self._pods += 1
        name = f"p{self._pods % 12}"
        volumes = []
        for number in range(self.random.randint(1, 3)):
            volume: Object = {"name": f"v{number}"}
            if self.chance(0.75):
                volume["persistentVolumeClaim"] = {"claimName": f"c{self.random.randint(0, CLAIMS)}"}
            elif self.chance(0.5):
                volume["ephemeral"] = {"volumeClaimTemplate": {"spec": {}}}
            else:
                volume |= self.disk()
            volumes.append(volume)
        spec: Object = {"containers": [{"name": "c", "image": "i"}], "schedulerName": "volcano", "volumes": volumes}
        if node:
            spec["nodeName"] = node
        metadata = {"name": name, "namespace": self.random.choice(NAMESPACES), "uid": f"uid-{name}"}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}

    def disk(self) -> Object:
        read_only, name = self.chance(0.5), f"d{self.random.randint(0, 1)}"
        monitors = self.random.sample(["m1", "m2", "m3"], 2)
        return self.random.choice(
            (
                {"gcePersistentDisk": {"pdName": name, "readOnly": read_only}},
                {"awsElasticBlockStore": {"volumeID": name}},
                {"iscsi": {"iqn": name, "readOnly": read_only}},
                {"rbd": {"monitors": monitors, "image": name, "readOnly": read_only}},
            )
        )
