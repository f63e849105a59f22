"""The facts that decide about claims: pods, nodes and the configuration, and what they imply."""

from collections.abc import Mapping

from deviceshare.allocation import ClaimCheck
from deviceshare.conf import SchedulerConf, default_conf
from deviceshare.families import FamilyError
from deviceshare.model import PodRequest, uses_of
from msgspec.structs import replace

from deviceshare_binder.core.bind_task import BindTask, Verdict, judge
from deviceshare_binder.core.card_shares import CardShares
from deviceshare_binder.core.devices import Devices
from deviceshare_binder.core.nodes import Nodes
from deviceshare_binder.core.views import PodView
from deviceshare_binder.core.volumes import Volumes


class Facts:
    """The known pods by uid, and the nodes; without ``check`` claims are not compared with them."""

    def __init__(self, *, check: bool = True) -> None:
        self.pods: dict[str, PodView] = {}
        self.nodes = Nodes()
        self.shares = CardShares()
        self.volumes = Volumes()
        self.devices = Devices(self.nodes.views)
        self.volume_timeout = default_conf().predicates.bind_timeout
        self.preemption_timeout = default_conf().preemption_timeout
        """Seconds for which a pod waits until its volumes are bound."""
        self._check = ClaimCheck(default_conf()) if check else None
        self._cordons = True
        """Whether cordoned nodes take no pods."""
        self._requests: dict[PodRequest, PodRequest] = {}
        """Equal requests are one object."""

    def configure(self, conf: SchedulerConf) -> None:
        """Check claims under a configuration."""
        self._check = ClaimCheck(conf) if self._check is not None else None
        self._cordons = conf.predicates.unschedulable
        self.devices.configure(conf.device_scope)
        self.volume_timeout = conf.predicates.bind_timeout
        self.preemption_timeout = conf.preemption_timeout

    def put(self, view: PodView) -> PodView:
        """Apply a pod's fact; return the view that is known now, which may have a newer revision."""
        if len(self._requests) > 2 * len(self.pods) + 100:
            self._requests = {each.ask: each.ask for each in self.pods.values()}
        request = self._requests.setdefault(view.ask, view.ask)
        view = view if request is view.ask else replace(view, ask=request)
        before = self.pods.get(view.uid)
        self.pods[view.uid] = view = view if before is None else before.updated(view)
        self.shares.set_bound(view.uid, "" if view.ended else view.node, view.held)
        return view

    def waits(self, uid: str) -> bool:
        """Return whether a pod waits for this scheduler: those of others are known once they have nodes."""
        pod = self.pods.get(uid)
        return pod is not None and not pod.node

    def drop(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self.pods.pop(uid, None)
        self.shares.set_bound(uid, "", ())

    def read(self, uid: str, revision: str, annotations: Mapping[str, str] | None) -> None:
        """Apply the revision and the annotations of a pod that was read, or written, and is not bound."""
        if (view := self.pods.get(uid)) is not None:
            self.pods[uid] = view.at(revision, annotations or {})

    def judge(self, task: BindTask) -> Verdict | None:
        """Return the outcome that the facts imply for a claim, None if no known fact prevents the binding."""
        pod = self.pods.get(task.claim.uid)
        return judge(task.claim, task.node.name, pod, self.nodes.views, cordons=self._cordons)

    def missing(self, task: BindTask) -> bool:
        """Return whether the pod or the node of a claim is not known."""
        return task.claim.uid not in self.pods or task.node.name not in self.nodes.views

    def objection(self, task: BindTask) -> str:
        """Return why a claim is not for its pod or does not fit its node, '' if nothing is wrong.

        Only of a claim whose pod and node are known. The facts may be older than those of placement.
        """
        claim, name = task.claim, task.node.name
        pod, cards = self.pods[claim.uid], self.nodes.cards.get(name, {})
        if self._check is None:
            return ""
        if (pod.namespace, pod.name) != (claim.namespace, claim.name):
            return f"the claim is for {claim.namespace}/{claim.name}, its uid is of {pod.namespace}/{pod.name}"
        if claim.devices and {each.key for each in claim.devices} != {each.claim for each in pod.device_claims}:
            return "the claim has devices for other ResourceClaims than those of the pod"
        if claim.bindings:
            used = {each.claim for each in uses_of(pod.ask.volumes, pod.namespace, pod.name, pod.uid)}
            for binding in claim.bindings:
                if binding.claim not in used:
                    return f"the claim binds PersistentVolumeClaim {binding.claim}, which the pod does not use"
                if bool(binding.volume) == bool(binding.node) or binding.node not in ("", name):
                    decided = f"PersistentVolume '{binding.volume}' and node '{binding.node}'"
                    return f"the claim binds PersistentVolumeClaim {binding.claim} to {decided}, on node {name}"
        try:
            found = self._check.against_request(claim, pod.ask, cards)
            if found:
                return f"the pod requests {found}"
            found = self._check.against_cards(claim, cards, self.shares.of_others(claim, name))
        except FamilyError as error:
            return str(error)
        return f"node {name} has {found}" if found else ""
