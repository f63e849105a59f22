"""A binder with the ResourceClaim of a pod, for which it allocates devices."""

import json
from typing import Any

from deviceshare.model import Claim, DeviceClaim, DeviceFact, DeviceResult, PodDeviceClaim, PodRequest
from deviceshare_binder.core.commands import FencePod, ReleaseClaims
from deviceshare_binder.core.events import ClaimsReleased, DeviceObjectChanged
from deviceshare_binder.core.views import NodeView, PodView
from support.binder import BinderDriver, messages
from support.devices import DRIVER, allocated, claim, gpu_class, gpus, key_of

POD = PodView(
    uid="u1",
    namespace="ns",
    name="a",
    revision="1",
    ask=PodRequest(unsupported=("spec.resourceClaims",)),
    device_claims=(PodDeviceClaim("gpu", "ns/one"),),
)
GPU = DeviceResult("r", DRIVER, "n1", "gpu-0")
ONE = DeviceClaim("ns/one", "uid-one", (GPU,), "n1")
CLAIM = Claim(id="c1", uid="u1", namespace="ns", name="a", devices=(ONE,))
FACT = claim("one")
MINE = allocated(FACT, [("n1", "gpu-0")], "u1")


class Scene(BinderDriver):
    """A binder with one claim on node n1, which has two GPUs."""

    def __init__(self, *facts: DeviceFact, made: Claim = CLAIM, started: bool = True) -> None:
        super().__init__(check=True)
        self.node("n1", NodeView(name="n1"))
        self.pod("u1", POD)
        for fact in (gpu_class(), gpus("n1", 2), *(facts or (FACT,))):
            self.fact(fact)
        if started:
            self.start()
        self.ledger("n1", [made])

    def fact(self, fact: DeviceFact, now: float | None = None) -> None:
        self.handle(DeviceObjectChanged(key_of(fact), fact), now)

    def gone(self, fact: DeviceFact) -> None:
        self.handle(DeviceObjectChanged(key_of(fact), None))

    def refusal(self, at: float) -> str:
        """Return why the claim is refused at a time: after its fence, and after its devices are released."""
        (fence,) = self.take(at)
        assert isinstance(fence, FencePod)
        self.read_answered("c1", "", at, {}, "2")
        (release,) = self.take(at)
        assert isinstance(release, ReleaseClaims)
        assert not messages([release]), "the outcome is not written before"
        self.handle(ClaimsReleased("c1"), at)
        (message,) = messages(self.take(at))
        (outcome,) = message.outcomes
        assert outcome.state == "refused"
        return str(outcome.reason)


def status_of(request: Any) -> dict[str, Any]:
    (of_claim,) = request.claims
    found: dict[str, Any] = json.loads(of_claim.allocation)
    return found
