"""The classes of pods: what about a pod and about other objects decides on which nodes and cards it fits."""

from msgspec.structs import replace

from deviceshare.allocation import Allocator, PodClass
from deviceshare.conf import matching
from deviceshare.model import ANTI_AFFINITY, PodFact
from deviceshare.scheduler.inherited_policies import InheritedPolicies


class PodClassifier:
    """Finds the classes of pods, and knows whether other objects have changed them."""

    def __init__(self, allocator: Allocator) -> None:
        self._allocator = allocator
        self.policies = InheritedPolicies()
        self.outdated = False
        """Whether waiting pods have to be classified again: there are new terms of pods, or namespaces or the policies
        of a queue have changed."""

    def classify(self, fact: PodFact, queue: str) -> tuple[PodFact, PodClass]:
        """Return the class of a pod in a queue, and its fact with the request of that class.

        The request names the rules of exclusion that the pod's labels match under the configuration, the terms of other
        pods that select the pod, the claims of its volumes and of devices, and the policies of its PodGroup and queue.
        """
        request, exclusive = fact.ask, matching(self._allocator.conf.exclusive_rules, fact.labels)
        waits = not (fact.node or fact.ended)
        imposed = self._allocator.imposed_terms.selecting(fact.namespace, fact.labels) if waits else ()
        claims = fact.volume_uses if waits and request.volumes else ()
        policies = self.policies.of(fact, queue) if self.policies else request.policies.own
        devices = self._allocator.devices.requests(fact) if waits and self._allocator.conf.dra else ()
        wanted = (exclusive, imposed, claims, devices, policies)
        if (request.exclusive, request.imposed, request.claims, request.devices, request.policies) != wanted:
            request = replace(
                request, exclusive=exclusive, imposed=imposed, claims=claims, devices=devices, policies=policies
            )
        pod_class = self._allocator.pod_class(request)
        return (fact if fact.ask is pod_class.request else replace(fact, ask=pod_class.request)), pod_class

    def impose(self, before: PodFact | None, after: PodFact | None) -> bool:
        """Note by which terms a pod affects others: those of ``after`` instead of ``before``; None: there is no pod.

        Returns whether it is the first pod with some term of anti-affinity.
        """
        old = before.ask.topology if before is not None and not before.ended else None
        new = after.ask.topology if after is not None and not after.ended else None
        if old == new:
            return False
        added = self._allocator.imposed_terms.add(new)
        following = self._allocator.imposed_terms.remove(old)
        self.outdated = self.outdated or bool(added or following)
        return any(term.kind == ANTI_AFFINITY for term in added)
