"""Claims whose pods are handed over to device plugins, for the tests of the binder."""

import msgspec
from deviceshare.model import Claim, ContainerGrant, DeviceGrant
from deviceshare_binder.core.commands import BindPod
from deviceshare_binder.core.views import NodeView, PodView
from deviceshare_cluster.interface import BindState
from support.binder import BinderDriver

NOW = 1_700_000_000.0
AT = "2023-11-14T22:13:20Z"
HAMI = "hami.io/mutex.lock"
TO_SERVE = {"volcano.sh/devices-to-allocate": "GPU-0,NVIDIA,10,0:"}


def vgpus(*counts, stage=""):
    return tuple(
        ContainerGrant(f"c{at}", at, "hami-core", tuple(DeviceGrant(f"GPU-{n}", n, 10, 0) for n in range(count)), stage)
        for at, count in enumerate(counts)
    )


def memory(amount):
    return (ContainerGrant("c0", 0, "gpu-share", (DeviceGrant("0", 0, amount, 0),)),)


VNPU = (ContainerGrant("c0", 0, "hami-vnpu", (DeviceGrant("D0", 0, 3072, 0, "Ascend310P/vir01"),)),)
VNPUS = (*VNPU, ContainerGrant("c1", 1, "hami-vnpu", (DeviceGrant("D1", 1, 3072, 0, "Ascend310P/vir01"),)))
SEVERAL = "vNPUs in several containers"


def part(cores):
    device = DeviceGrant("Ascend310P-0", 0, 0, cores, f"vir0{cores}", made="unmade")
    return (ContainerGrant("c0", 0, "mindcluster", (device,)),)


def pod(uid, grants=(), node="", **fields):
    containers = [(f"c{at}", ()) for at in range(max(1, len(grants)))]
    view = {"kind": "pod", "uid": uid, "namespace": "default", "name": uid, "node": node, **fields}
    return msgspec.convert(view | {"ask": {"containers": containers}}, PodView)


def claim(uid, grants):
    return Claim(id=f"claim-{uid}", uid=uid, namespace="default", name=uid, grants=grants)


class Cluster:
    """A core with claims on one node, and the answers that it gets."""

    def __init__(self, *grants, locks=()):
        self.core = BinderDriver(NOW)
        self.core.node("n1", NodeView(name="n1", locks=tuple(locks)))
        self.grants = {f"p{number}": each for number, each in enumerate(grants)}
        for uid, each in self.grants.items():
            self.core.pod(uid, pod(uid, each))
        self.core.start()
        self.claims(*self.grants)

    def claims(self, *uids):
        self.core.ledger("n1", [claim(uid, self.grants[uid]) for uid in uids])

    def begun(self, now=NOW):
        return [one.uid for one in self.core.take(now) if isinstance(one, BindPod)]

    def bound(self, uid, *unserved, fact=True):
        self.core.bind_answered(f"claim-{uid}", BindState.BOUND, "n1", "", NOW, TO_SERVE)
        if fact:
            self.fact(uid, *unserved)

    def fact(self, uid, *unserved, **fields):
        keys = [("hami-core", key) for key in unserved]
        self.core.pod(uid, pod(uid, self.grants[uid], "n1", unserved=keys, **fields))
