"""The binder binds the volumes of a pod first, waits for them, and refuses the claim if they cannot be bound."""

import pytest
from deviceshare.model import HOSTNAME, Claim, ConfigFact, PodRequest, PodVolume, Requirement, VolumeBinding
from deviceshare_binder.core.commands import BindPod, BindVolumes, FencePod
from deviceshare_binder.core.events import (
    ClusterFailed,
    SchedulerConfigured,
    VolumeChanged,
    VolumeClaimChanged,
    VolumesRequested,
)
from deviceshare_binder.core.views import NodeView, PodView, VolumeClaimView, VolumeView
from msgspec.structs import replace
from support.binder import BinderDriver, messages

STATIC = VolumeBinding("ml/data", "uid-data", volume="pv")
MADE = VolumeBinding("ml/cache", "uid-cache", node="n1")
POD = PodView(
    uid="u1",
    namespace="ml",
    name="a",
    ask=PodRequest(volumes=(PodVolume("d", "data"), PodVolume("c", "cache"))),
)
CLAIM = Claim(id="c1", uid="u1", namespace="ml", name="a", bindings=(STATIC, MADE))
DATA = VolumeClaimView(key="ml/data", uid="uid-data", revision="5")
CACHE = VolumeClaimView(key="ml/cache", uid="uid-cache", revision="6")
DISK = VolumeView(name="pv", revision="7")
RESERVED = replace(DISK, claim="ml/data", claim_uid="uid-data", revision="8")


def there(host: str) -> tuple[tuple[Requirement, ...], ...]:
    return ((Requirement(HOSTNAME, "In", (host,)),),)


class Scene(BinderDriver):
    """A binder with one claim on node n1; ``also``: another pod of the node without volumes."""

    def __init__(self, claim: Claim = CLAIM, *, also: bool = False, timeout: int = 0) -> None:
        super().__init__(check=True)
        if timeout:
            arguments = f"{{volumebinding.bindTimeoutSeconds: {timeout}}}"
            plugin = f"actions: allocate\ntiers:\n- plugins:\n  - name: predicates\n    arguments: {arguments}\n"
            self.handle(SchedulerConfigured(ConfigFact(name="scheduler", text=plugin)))
        self.node("n1", NodeView(name="n1", labels={HOSTNAME: "n1"}))
        self.pod("u1", POD)
        self.pod("u2", PodView(uid="u2", namespace="ml", name="b"))
        for view in (DATA, CACHE):
            self.claim(view)
        self.volume(DISK)
        self.start()
        other = Claim(id="c2", uid="u2", namespace="ml", name="b")
        self.ledger("n1", [claim, other] if also else [claim])

    def claim(self, view: VolumeClaimView | None, key: str = "") -> None:
        self.handle(VolumeClaimChanged(view.key if view is not None else key, view))

    def volume(self, view: VolumeView | None, name: str = "pv") -> None:
        self.handle(VolumeChanged(name if view is None else view.name, view))

    def requested(self, problem: str = "", **revisions: str) -> None:
        self.handle(VolumesRequested("c1", problem, revisions))

    def all_requested(self) -> None:
        self.take(0.0)
        self.handle(VolumesRequested("c1", "", {"pv": "8", "ml/cache": "9"}))
        assert self.take(0.1) == []

    def refusal(self, at: float) -> str:
        """Return why the claim is refused at a time, after its fence."""
        (fence,) = self.take(at)
        assert isinstance(fence, FencePod)
        self.read_answered("c1", "", at, {}, "2")
        (message,) = messages(self.take(at))
        (outcome,) = message.outcomes
        assert outcome.state == "refused"
        return outcome.reason


def test_volumes_are_requested_then_the_pod_is_bound() -> None:
    core = Scene()
    assert core.take(0.0) == [BindVolumes("c1", (STATIC, MADE))]
    core.handle(VolumesRequested("c1", "", {"pv": "8", "ml/cache": "9"}))
    assert core.take(0.1) == []
    core.volume(replace(DISK, claim="ml/data", claim_uid="uid-data", revision="8"))
    core.claim(replace(DATA, volume="pv", bound=True, revision="10"))
    core.claim(replace(CACHE, selected_node="n1", revision="9"))
    assert core.take(0.2) == []
    core.claim(replace(CACHE, selected_node="n1", volume="pvc-1", bound=True, revision="12"))
    assert core.take(0.3) == [], "its volume is not known yet"
    core.volume(VolumeView(name="pvc-1", node_terms=there("n1")))
    (bind,) = core.take(0.4)
    assert isinstance(bind, BindPod)


def test_a_pod_whose_volumes_are_bound_takes_no_other_request() -> None:
    (bind,) = Scene(replace(CLAIM, bindings=())).take(0.0)
    assert isinstance(bind, BindPod)


def test_only_what_is_not_bound_is_requested() -> None:
    core = Scene()
    core.claim(replace(DATA, volume="pv", bound=True))
    assert core.take(0.0) == [BindVolumes("c1", (MADE,))]


def test_other_pods_of_the_node_do_not_wait() -> None:
    core = Scene(also=True)
    first, second = core.take(0.0)
    assert {type(first), type(second)} == {BindVolumes, BindPod}
    assert core.detail["in_flight"] == 2
    core.requested()
    assert core.detail["in_flight"] == 1, "a pod that waits for its volumes is not in flight"


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (replace(DATA, terminating=True), "PersistentVolumeClaim ml/data is being deleted"),
        (replace(DATA, volume="pv", lost=True), "is bound to PersistentVolume pv, which does not exist"),
        (replace(DATA, uid="another"), "is another one than at the time of the decision: its uid is another"),
        (replace(DATA, volume="other", bound=True), "was bound to PersistentVolume other instead of pv"),
        (replace(CACHE, selected_node="", revision="10"), "its provisioner rejected node n1"),
        (replace(DISK, revision="9"), "PersistentVolume pv is not reserved for PersistentVolumeClaim ml/data any more"),
        (replace(DISK, claim="ml/other", revision="9"), "PersistentVolume pv is not reserved for"),
        (replace(RESERVED, terminating=True), "PersistentVolume pv is being deleted"),
        (replace(RESERVED, node_terms=there("n2")), "node affinity of PersistentVolume pv does not match node n1"),
    ],
)
def test_why_volumes_cannot_be_bound(fact: VolumeClaimView | VolumeView, reason: str) -> None:
    core = Scene()
    core.all_requested()
    (core.volume if isinstance(fact, VolumeView) else core.claim)(fact)
    assert reason in core.refusal(1.0)


@pytest.mark.parametrize(
    "fact",
    [
        CACHE,
        DISK,
        replace(CACHE, selected_node="", revision="8"),
        replace(DISK, node_terms=there("n2")),
        replace(DISK, terminating=True),
    ],
)
def test_facts_older_than_the_requests_change_nothing(fact: VolumeClaimView | VolumeView) -> None:
    core = Scene()
    core.all_requested()
    (core.volume if isinstance(fact, VolumeView) else core.claim)(fact)
    assert core.take(1.0) == []


def test_a_volume_made_where_the_node_cannot_use_it() -> None:
    core = Scene()
    core.all_requested()
    core.volume(VolumeView(name="pvc-1", node_terms=there("n2")))
    core.claim(replace(CACHE, selected_node="n1", volume="pvc-1", bound=True, revision="10"))
    assert "node affinity of PersistentVolume pvc-1 does not match node n1" in core.refusal(1.0)


def test_a_volume_that_another_claim_has() -> None:
    core = Scene()
    core.take(0.0)
    core.requested("PersistentVolume pv belongs to another claim")
    assert core.refusal(0.1) == "PersistentVolume pv belongs to another claim"


@pytest.mark.parametrize(("timeout", "seconds"), [(0, 600.0), (30, 30.0)])
def test_claims_that_are_not_bound_in_time(timeout: int, seconds: float) -> None:
    core = Scene(timeout=timeout)
    core.all_requested()
    core.claim(replace(DATA, volume="pv", bound=True, revision="10"))
    assert core.take(seconds - 1) == []
    assert core.next_due() == seconds
    assert core.refusal(seconds) == f"PersistentVolumeClaims were not bound within {seconds:g} s: ml/cache"


def test_a_claim_that_is_deleted_is_refused_at_once() -> None:
    core = Scene()
    core.all_requested()
    core.claim(None, "ml/cache")
    assert core.refusal(1.0) == "PersistentVolumeClaim ml/cache was deleted"


def test_a_claim_that_never_appears_is_waited_for_in_vain() -> None:
    core = Scene()
    core.claim(None, "ml/cache")
    assert core.take(0.0) == []
    assert core.refusal(12.0) == "there is no PersistentVolumeClaim ml/cache"


@pytest.mark.parametrize("claim", [STATIC, MADE])
def test_a_claim_that_is_created_again_before_its_deletion_is_known(claim: VolumeBinding) -> None:
    """The binder's facts are older than those of placement: it reads the deletion of the claim's predecessor."""
    core = Scene(replace(CLAIM, bindings=(replace(claim, uid="uid-new"),)))
    assert core.take(0.0) == []
    core.claim(None, claim.claim)
    assert core.take(1.0) == []
    core.claim(VolumeClaimView(key=claim.claim, uid="uid-new", revision="12"))
    (request,) = core.take(2.0)
    assert isinstance(request, BindVolumes)


@pytest.mark.parametrize("labelled", [True, False])
def test_older_facts_of_the_node_and_its_volumes_are_waited_for(*, labelled: bool) -> None:
    """The volume of this name could not be used on the node until one of the two was changed."""
    core = Scene(replace(CLAIM, bindings=(STATIC,)))
    core.volume(replace(DISK, node_terms=there("n1-new")))
    assert core.take(0.0) == []
    assert core.take(9.0) == []
    if labelled:
        core.node("n1", NodeView(name="n1", labels={HOSTNAME: "n1-new"}))
    else:
        core.volume(replace(DISK, node_terms=there("n1"), revision="9"))
    assert core.take(9.5) == [BindVolumes("c1", (STATIC,))]


@pytest.mark.parametrize(
    ("fact", "reason"),
    [
        (replace(DATA, uid="another"), "its uid is another"),
        (replace(DISK, node_terms=there("n2")), "node affinity of PersistentVolume pv does not match node n1"),
    ],
)
def test_facts_that_object_are_waited_for_no_longer_than_others(
    fact: VolumeClaimView | VolumeView, reason: str
) -> None:
    core = Scene()
    (core.volume if isinstance(fact, VolumeView) else core.claim)(fact)
    assert core.take(0.0) == []
    core.claim(replace(CACHE, revision="7"))
    assert core.take(9.0) == []
    assert core.next_due() == 10.0
    assert reason in core.refusal(10.0)


@pytest.mark.parametrize("reserved", [True, False])
@pytest.mark.parametrize("problem", ["there is no PersistentVolume pv", "PersistentVolume pv belongs to another claim"])
def test_a_volume_that_vanishes_is_requested_again(problem: str, *, reserved: bool) -> None:
    """Its fact is deleted if it was deleted, or if a claim that no known pod uses has it: the cluster knows."""
    core = Scene()
    core.all_requested()
    if reserved:
        core.volume(RESERVED)
        assert core.take(0.5) == []
    core.volume(None)
    assert core.take(1.0) == [BindVolumes("c1", (STATIC, MADE))]
    core.requested(problem)
    assert core.refusal(1.5) == problem


def test_a_volume_that_vanishes_while_it_is_requested_is_requested_once_more() -> None:
    core = Scene()
    core.take(0.0)
    core.volume(None)
    assert core.take(0.1) == []
    core.requested(pv="8", **{"ml/cache": "9"})
    assert core.take(0.2) == [BindVolumes("c1", (STATIC, MADE))]
    core.requested(pv="8", **{"ml/cache": "9"})
    assert core.take(0.3) == [], "it exists: no fact of it is needed"
    core.volume(None)
    assert core.take(0.4) == [], "nothing changed"
    core.claim(replace(DATA, volume="pv", bound=True, revision="10"))
    core.claim(replace(CACHE, selected_node="n1", volume="pvc-1", bound=True, revision="12"))
    core.volume(RESERVED)
    core.volume(VolumeView(name="pvc-1"))
    (bind,) = core.take(0.5)
    assert isinstance(bind, BindPod)


def test_a_request_that_failed_is_repeated() -> None:
    core = Scene()
    (request,) = core.take(0.0)
    core.handle(ClusterFailed(request, "no answer"))
    assert core.take(10.0) == [request]


def test_a_binder_that_was_restarted_requests_and_waits_again() -> None:
    core = Scene()
    core.claim(replace(CACHE, selected_node="n1", revision="9"))
    core.volume(replace(DISK, claim="ml/data", claim_uid="uid-data", revision="8"))
    assert core.take(0.0) == [BindVolumes("c1", (STATIC, MADE))]


def test_a_withdrawn_claim_waits_no_more() -> None:
    core = Scene()
    core.all_requested()
    core.ledger("n1", [replace(CLAIM, withdraw=True)])
    (fence,) = core.take(1.0)
    assert isinstance(fence, FencePod)


def test_a_claim_of_another_pod_is_not_bound() -> None:
    core = Scene(replace(CLAIM, bindings=(VolumeBinding("ml/secret", "uid-secret", "pv"),)))
    assert core.take(0.0) == []
    assert "binds PersistentVolumeClaim ml/secret, which the pod does not use" in core.refusal(11.0)


@pytest.mark.parametrize(
    "binding",
    [replace(MADE, node=""), replace(MADE, volume="pv"), replace(MADE, node="n2")],
    ids=["neither", "both", "another node"],
)
def test_a_binding_that_placement_never_makes_is_not_requested(binding: VolumeBinding) -> None:
    core = Scene(replace(CLAIM, bindings=(STATIC, binding)))
    assert core.take(0.0) == []
    assert "binds PersistentVolumeClaim ml/cache to PersistentVolume" in core.refusal(11.0)


def test_a_ledger_that_an_earlier_version_writes_again_loses_no_binding() -> None:
    core = Scene()
    core.all_requested()
    core.ledger("n1", [replace(CLAIM, bindings=())])
    assert core.take(0.2) == []
    assert core.detail["in_flight"] == 0


def test_a_volume_that_is_lost_before_the_binding_is_repeated() -> None:
    core = Scene()
    core.all_requested()
    core.volume(VolumeView(name="pvc-1"))
    core.claim(replace(DATA, volume="pv", bound=True, revision="10"))
    core.claim(replace(CACHE, selected_node="n1", volume="pvc-1", bound=True, revision="12"))
    (bind,) = core.take(0.2)
    assert isinstance(bind, BindPod)
    core.handle(ClusterFailed(bind, "no answer"))
    core.claim(replace(DATA, volume="pv", lost=True, revision="13"))
    assert "is bound to PersistentVolume pv, which does not exist" in core.refusal(20.0)
