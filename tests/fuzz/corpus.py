"""Valid values of all formats, as initial values."""

import json
from functools import cache
from typing import Any

from support.example_cluster import EXAMPLES, ExampleCluster, admitted, kind, objects

REGISTER = (
    "GPU-03f69c50-207a-2038-9b45-23cac89cb67d,10,32768,NVIDIA-Tesla V100-PCIE-32GB,true,hami-core:"
    "GPU-1afede84-4e70-2174-49af-f07ebb94d1ae,10,32768,NVIDIA-Tesla V100-PCIE-32GB,false,hami-core:",
    "GPU-65185008-d728-5513-7721-015b4f907c5c,7,81920,NVIDIA-NVIDIA A100-SXM4-80GB,true,mig:",
    "GPU-1,10,15360,NVIDIA-Tesla T4,1,mps:",
)
IDS = (
    "GPU-03f69c50-207a-2038-9b45-23cac89cb67d,NVIDIA,3000,50:GPU-1afede84,NVIDIA,3000,50:;;GPU-1,NVIDIA,1,0:",
    "GPU-65185008-d728-5513-7721-015b4f907c5c[group2-0],NVIDIA,20096,0:",
    ",,0,0:;",
)
HAMI_REGISTER = (
    '[{"id":"F6587742-98BC1231-CAE58CBE-F6113D5C-A60BEA67","count":10,"devmem":32768,"devcore":100,"type":"Ascend910A",'
    '"health":true,"custominfo":{"NetworkID":0},"devicepairscore":{}},{"id":"AEB7071F-8E527CC5-B0B4E918-88465D26-5C71DC1B",'
    '"index":1,"count":10,"devmem":32768,"devcore":100,"type":"Ascend910A","custominfo":{"NetworkID":1}}]',
    "[]",
    "null",
)
HAMI_SLOTS = (
    "F6587742-98BC1231-CAE58CBE-F6113D5C-A60BEA67,Ascend910A,4369,0:;",
    "F6587742,Ascend910A,32768,0:AEB7071F,Ascend910A,32768,0:;;E9,Ascend910A,16,30:;",
)
HAMI_CUTS = (
    '[{"UUID":"F6587742-98BC1231-CAE58CBE-F6113D5C-A60BEA67","temp":"vir04"}]',
    '[{"UUID":"F6587742"},{"UUID":"AEB7071F","memory":16,"core":30}]',
)
BASE_INFO = ('{"Ascend310P-0":{"IP":"","SuperDeviceID":0},"Ascend310P-1":{"IP":"","SuperDeviceID":0}}',)
SERVER_TYPES = ("Ascend310P-8", "Ascend310P-8-dual")
GIVEN = ("0-vir02_1c", "0,1", "3-vir04_4c_dvpp")
REAL = ("Ascend310P-2c.1cpu-105-0_3", "Ascend310P-0", "Ascend310P-4c-100-0_0,Ascend310P-1c-101-0_1")
DEVICE_LIST = {
    "DeviceList": {
        "huawei.com/Ascend310P": "Ascend310P-0,Ascend310P-1",
        "huawei.com/Ascend310P-Fault": "[]",
        "huawei.com/Ascend310P-Recovering": "",
        "huawei.com/Ascend310P-Unhealthy": "Ascend310P-1",
    },
    "SuperPodID": -1,
    "UpdateTime": 1767600000,
}
QUANTITIES = ("4Gi", "500m", "320k", "1e3", "2.5", "0.5Ki", "3000", "-1", "1E", "10e-3", "+2", ".5")
EXCLUSIVE_RULES = """\
- name: deviceshare
  arguments:
    deviceshare.VGPUEnable: true
    deviceshare.GPUExclusiveRules:
    - {app: llm, tier: prod}
    - {app: batch}
"""
DEVICE_CONFIG = """\
nvidia:
  resourceCountName: volcano.sh/vgpu-number
  resourceMemoryPercentageName: volcano.sh/vgpu-memory-percentage
  defaultMemory: 0
  defaultGPUNum: 1
  deviceMemoryScaling: 1.5
  gpuMemoryFactor: 1
  knownMigGeometries:
  - models: ["A30", "A100-PCIE-40GB"]
    allowedGeometries:
    - group: group2
      geometries:
      - {name: 2g.10gb, memory: 10240, count: 3}
      - {name: 1g.5gb, memory: 5120, count: 1}
vnpus:
  hamiVnpuCore: false
  configs:
  - chipName: 910B3
    commonWord: Ascend910B3
    resourceName: huawei.com/Ascend910B3
    resourceMemoryName: huawei.com/Ascend910B3-memory
    resourceCoreName: huawei.com/Ascend910B3-core
    memoryAllocatable: 65536
    memoryCapacity: 65536
    aiCore: 20
    aiCPU: 7
    templates:
    - {name: vir05_1c_16g, memory: 16384, aiCore: 5, aiCPU: 1}
"""
TRICKY_YAML = (
    'a: &a [*a]',
    "a: &a {b: *a}",
    "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]",
    '"\\ud800": "\\ud800"',
    "? [a, b]\n: c",
    "<<: {a: 1}",
    "a: 2001-02-30",
    "a: !!binary x",
    "a: !!int x",
    "a: .inf\nb: .nan",
    "- name: deviceshare\n  arguments: {deviceshare.ScheduleWeight: 0x" + "f" * 5000 + "}",
    "nvidia: {defaultMemory: 0x" + "f" * 5000 + "}",
    "- " * 400 + "a",
    "a: !!int",
    "a: !!bool x",
    "a: !!timestamp x",
    "%YAML 9.9\n---\na",
    "\x00",
    "a: 1_000:30",
)  # fmt: skip


def texts_of(*suffixes: str) -> list[str]:
    """Return the text of every example file with one of these suffixes."""
    return [path.read_text() for path in sorted(EXAMPLES.rglob("*")) if path.suffix in suffixes]


@cache
def nodes() -> tuple[dict[str, Any], ...]:
    """Return every example node."""
    return tuple(admitted(obj) for obj in kind("Node"))


@cache
def pods() -> tuple[dict[str, Any], ...]:
    """Return every example pod as it waits, and as it is bound."""
    cluster = ExampleCluster("volcano-scheduler.conf")
    found = []
    for path, obj in objects().items():
        if obj["kind"] != "Pod":
            continue
        waiting = admitted(obj)
        found.append(waiting)
        for result in cluster.run(path).values():
            bound = json.loads(json.dumps(waiting))
            bound["metadata"]["annotations"] = {**bound["metadata"].get("annotations", {}), **result.annotations}
            bound["spec"]["nodeName"] = result.node
            found.append(bound)
    found.append(_RICH_POD)
    return tuple(found)


_RICH_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "rich",
        "namespace": "ns",
        "uid": "u",
        "resourceVersion": "7",
        "creationTimestamp": "2026-02-03T04:05:06Z",
        "deletionTimestamp": "2026-02-03T04:05:06.123456789+08:00",
        "labels": {"app": "llm", "vnpu-level": "high", "vnpu-dvpp": "null", "ring-controller.atlas": "ascend-310P"},
        "annotations": {
            "scheduling.k8s.io/group-name": "g",
            "volcano.sh/task-spec": "worker",
            "volcano.sh/vgpu-mode": "mig",
            "volcano.sh/vgpu-podgroup-policy": "spread",
            "volcano.sh/vgpu-use-gpuuuid": "GPU-1,GPU-2",
            "nvidia.com/use-gputype": "A100,V100",
            "nvidia.com/nouse-gputype": "T4",
            "volcano.sh/gpu-index": "0,2",
            "huawei.com/vnpu-mode": "hami-core",
        },
    },
    "spec": {
        "schedulerName": "volcano",
        "priority": 10,
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "schedulingGates": [{"name": "later"}],
        "overhead": {"cpu": "10m"},
        "resources": {"requests": {"memory": "2Gi"}, "limits": {"cpu": "4"}},
        "hostNetwork": False,
        "tolerations": [
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"},
            {"operator": "Exists"},
        ],
        "topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}],
        "volumes": [
            {"name": "v", "persistentVolumeClaim": {"claimName": "c"}},
            {"name": "e", "ephemeral": {"volumeClaimTemplate": {}}},
            {"name": "r", "rbd": {"monitors": ["m"], "image": "i", "readOnly": True}},
        ],
        "affinity": {
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "weight": 10,
                        "preference": {"matchExpressions": [{"key": "disk", "operator": "Exists"}]},
                    }
                ],
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]},
                                {"key": "cards", "operator": "Gt", "values": ["1"]},
                            ],
                            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}],
                        }
                    ]
                },
            },
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{}]},
        },
        "initContainers": [
            {"name": "i", "restartPolicy": "Always", "resources": {"limits": {"volcano.sh/vgpu-number": "1"}}},
            {"name": "j", "resources": {"limits": {"volcano.sh/gpu-memory": "2048", "huawei.com/npu-core": "1"}}},
        ],
        "containers": [
            {
                "name": "c",
                "ports": [{"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1", "protocol": "UDP"}],
                "resources": {
                    "requests": {"cpu": "1500m", "memory": "1Gi"},
                    "limits": {
                        "volcano.sh/vgpu-number": "2",
                        "volcano.sh/vgpu-memory": "4Ki",
                        "volcano.sh/vgpu-cores": "50",
                        "volcano.sh/vgpu-memory-percentage": "25",
                    },
                },
            },
            {
                "name": "d",
                "resources": {"limits": {"huawei.com/Ascend310P": "1", "huawei.com/Ascend310P-memory": "4096"}},
            },
        ],
    },
    "status": {"phase": "Pending"},
}

PODGROUP = {
    "metadata": {"name": "g", "namespace": "ns", "uid": "u", "creationTimestamp": "2026-02-03T04:05:06Z"},
    "spec": {"minMember": 3, "minTaskMember": {"worker": 2}, "queue": "q", "priorityClassName": "high"},
}
VOLUME_CLAIM = {
    "metadata": {
        "name": "c", "namespace": "ns", "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        "ownerReferences": [{"uid": "u", "controller": True}],
    },
    "spec": {
        "accessModes": ["ReadWriteOncePod"], "resources": {"requests": {"storage": "1.5Gi"}}, "volumeName": "pv",
        "selector": {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "Exists"}]},
    },
    "status": {"phase": "Bound"},
}  # fmt: skip
VOLUME = {
    "metadata": {"name": "pv", "labels": {"topology.kubernetes.io/zone": "a__b"}},
    "spec": {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}, "storageClassName": "fast",
        "csi": {"driver": "csi.example.com", "volumeHandle": "h"}, "claimRef": {"namespace": "ns", "name": "c"},
        "nodeAffinity": {
            "required": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}],
            },
        },
    },
}  # fmt: skip
STORAGE_CLASS = {
    "metadata": {"name": "fast"},
    "provisioner": "csi.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
    "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}],
}
CSI_NODE = {
    "metadata": {"name": "n"},
    "spec": {"drivers": [{"name": "csi.example.com", "allocatable": {"count": 3}}]},
}
DISRUPTION_BUDGET = {
    "metadata": {"name": "a", "namespace": "ns", "resourceVersion": "7"},
    "spec": {
        "minAvailable": "50%",
        "maxUnavailable": 1,
        "selector": {
            "matchLabels": {"app": "a"},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": ["x"]}],
        },
    },
    "status": {"disruptionsAllowed": 1},
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": {"env": "prod"}}}
QUEUE = {
    "metadata": {"name": "q", "uid": "u"},
    "spec": {"weight": 2, "capability": {"cpu": "4"}},
    "status": {"state": "Open"},
}
RECORDED_CASE = {
    "id": "vgpu-hamicore/0010", "family": "vgpu-hamicore", "mode": "rebuild", "config": "builtin-default",
    "args": {"deviceshare.SchedulePolicy": "spread", "deviceshare.ScheduleWeight": 10, "deviceshare.VGPUEnable": True},
    "node": {
        "name": "n", "annotations": {"volcano.sh/node-vgpu-register": REGISTER[0]},
        "allocatable": {"cpu": "64", "volcano.sh/vgpu-number": "20", "volcano.sh/vgpu-cores": "200"},
    },
    "pods": [
        {"namespace": "a", "name": "p", "uid": "u", "annotations": {"volcano.sh/vgpu-ids-new": ""}, "containers": []},
    ],
    "initial": {"present": True, "state": [[1, 3000, 50], [1, 3000, 50]]},
    "steps": [
        {
            "op": "place", "has_request": True, "filter": {"fits": True}, "score": 0.5, "state": [[1, 1, 1]],
            "pod": {"namespace": "a", "name": "q", "uid": "v", "containers": [{"name": "c", "limits": {"cpu": "1"}}]},
            "allocate": {"ok": True, "annotations": {"volcano.sh/vgpu-ids-new": IDS[1]}},
        },
        {"op": "release", "pod_ref": "a/q", "how": "delete"},
    ],
    "quirk": "",
}  # fmt: skip
DEVICE_CLASS: dict[str, Any] = {
    "metadata": {"name": "gpu"},
    "spec": {
        "selectors": [{"cel": {"expression": 'device.driver == "gpu.example.com"'}}],
        "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"sharing": None, "slots": [1, 2.5]}}}],
        "extendedResourceName": "example.com/gpu",
    },
}
_MEMORY = {
    "value": "80Gi",
    "requestPolicy": {"default": "10Gi", "validRange": {"min": "5Gi", "max": "40Gi", "step": "5Gi"}},
}
RESOURCE_SLICE: dict[str, Any] = {
    "metadata": {"name": "n-gpu", "uid": "u"},
    "spec": {
        "driver": "gpu.example.com",
        "pool": {"name": "n", "generation": 3, "resourceSliceCount": 1},
        "nodeName": "n",
        "sharedCounters": [{"name": "card-0", "counters": {"slices": {"value": "7"}, "memory": {"value": "80Gi"}}}],
        "devices": [
            {
                "name": f"gpu-{number}",
                "attributes": {
                    "model": {"string": "H100"},
                    "driverVersion": {"version": "570.86.15"},
                    "index": {"int": number},
                    "healthy": {"bool": True},
                    "lanes": {"ints": [1, 2]},
                },
                "capacity": {"memory": _MEMORY, "cores": {"value": 100}},
                "allowMultipleAllocations": number > 0,
                "consumesCounters": [
                    {"counterSet": "card-0", "counters": {"slices": {"value": "3"}}, "compatibilityGroups": ["a"]}
                ],
                "taints": [{"key": "maintenance", "value": "soon", "effect": "NoSchedule"}],
                "bindingConditions": ["ready"],
                "bindingFailureConditions": ["failed"],
            }
            for number in range(2)
        ],
    },
}
RESOURCE_CLAIM: dict[str, Any] = {
    "metadata": {"name": "c", "namespace": "ns", "uid": "u"},
    "spec": {
        "devices": {
            "requests": [
                {
                    "name": "first",
                    "exactly": {
                        "deviceClassName": "gpu",
                        "selectors": [{"cel": {"expression": 'device.attributes["gpu.example.com"].index >= 0'}}],
                        "allocationMode": "ExactCount",
                        "count": 1,
                        "tolerations": [{"key": "maintenance", "operator": "Exists"}],
                        "capacity": {"requests": {"memory": "7Gi"}},
                    },
                },
                {
                    "name": "second",
                    "firstAvailable": [
                        {"name": "all", "deviceClassName": "gpu", "allocationMode": "All"},
                        {"name": "one", "deviceClassName": "gpu", "adminAccess": True, "tolerations": [{}]},
                    ],
                },
            ],
            "constraints": [
                {"requests": ["first", "second/one"], "matchAttribute": "gpu.example.com/model"},
                {"distinctAttribute": "gpu.example.com/index"},
            ],
            "config": [{"requests": ["first"], "opaque": {"driver": "gpu.example.com", "parameters": {}}}],
        }
    },
    "status": {
        "allocation": {
            "devices": {
                "results": [
                    {
                        "request": "first",
                        "driver": "gpu.example.com",
                        "pool": "n",
                        "device": "gpu-1",
                        "shareID": "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa",
                        "consumedCapacity": {"memory": "10Gi", "cores": "100"},
                    }
                ]
            },
            "nodeSelector": {
                "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}]
            },
        }
    },
}
