"""The admission policy for devices that no other scheduler may allocate, on a real API server."""

import time
import urllib.error
from typing import Any

from support import deploy
from support.agents.api import MERGE
from support.apiserver import ApiServer

CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
BINDER, SCHEDULER = "system:serviceaccount:deviceshare-system:binder", "system:kube-scheduler"
LISTED, OTHER = "gpu.nvidia.com", "nic.example.com"
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
PODS = [{"resource": "pods", "name": "p", "uid": "u"}]


def write(server: ApiServer, name: str, status: dict[str, Any], user: str, *, dry: bool = False) -> str:
    """Write into the status of a claim as a user; return why that is refused, '' if it is not."""
    path = f"{CLAIMS}/{name}/status{'?dryRun=All' if dry else ''}"
    try:
        server.request("PATCH", path, {"status": status}, MERGE, user)
    except urllib.error.HTTPError as error:
        return error.read().decode()
    return ""


def allocated(*drivers: str) -> dict[str, Any]:
    results = [{"request": "r", "driver": driver, "pool": "n", "device": f"d{at}"} for at, driver in enumerate(drivers)]
    return {"allocation": {"devices": {"results": results}}, "reservedFor": PODS}


def test_only_the_binder_allocates_the_devices_of_a_listed_driver(apiserver: ApiServer) -> None:
    claims = [
        {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": name}, "spec": SPEC}
        for name in ("ours", "theirs")
    ]
    for claim in claims:
        apiserver.request("POST", CLAIMS, claim)
    try:
        with deploy.applied(apiserver, *deploy.read(deploy.KUBERNETES / "exclusive-devices")):
            until = time.monotonic() + 60
            while not (refusal := write(apiserver, "ours", allocated(LISTED), SCHEDULER, dry=True)):
                assert time.monotonic() < until, "the policy does not come into force"
                time.sleep(0.1)
            assert "only deviceshare allocates the devices of this driver" in refusal
            assert write(apiserver, "ours", allocated(OTHER, LISTED), SCHEDULER) == refusal, "one of two is enough"
            assert write(apiserver, "theirs", allocated(OTHER), SCHEDULER) == ""
            assert write(apiserver, "ours", allocated(LISTED), BINDER) == ""
            again = {"reservedFor": [*PODS, {"resource": "pods", "name": "q", "uid": "v"}]}
            assert write(apiserver, "ours", again, SCHEDULER) == "", "others may use what we allocated"
            health = {"devices": [{"driver": LISTED, "pool": "n", "device": "d0", "data": {"state": 'it\'s "fine"'}}]}
            assert write(apiserver, "ours", health, "system:serviceaccount:drivers:gpu") == "", "drivers report devices"
            freed = {"devices": None, "allocation": None, "reservedFor": None}
            assert write(apiserver, "ours", freed, "system:kube-controller-manager") == "", "its controller frees it"
    finally:
        for name in ("ours", "theirs"):
            apiserver.request("DELETE", f"{CLAIMS}/{name}")
