"""What the allocator answers for a pod: the best node, or why there is none."""

import msgspec

from deviceshare.model import ContainerGrant, DeviceClaim, HostPort, NearNode, Problem, Refusal, VolumeBinding


class Placement(msgspec.Struct, frozen=True, gc=False):
    """The best node for a pod, and what the pod is allocated there.

    ``grants``: devices by container; ``resources``: the node's own resources; ``ports``: the pod's host ports;
    ``counted``: amounts that nodes count in addition to ``resources``; ``feasible``: the number of feasible nodes.
    """

    node: str
    grants: tuple[ContainerGrant, ...]
    resources: tuple[tuple[str, int], ...]
    feasible: int
    score: float
    """The score of the chosen cards under the policy, before weighting; 0 under the policy ``none``.

    Under ``binpack`` and ``spread`` 0 to 100 for each card, or for each request, as the family defines. A family with a
    ``best_node_score`` adds it on the node that it ranks first.
    """
    weighted_score: float = 0.0
    """The total score of the node: the rounded, weighted score of the cards and the scores of the plugins ``nodeorder``
    and ``binpack``, plus a billionth of the exact score of the cards if that breaks ties."""
    ports: tuple[HostPort, ...] = ()
    counted: tuple[tuple[str, int], ...] = ()
    exclusive: bool = False
    """Whether the pod uses a volume that one pod of the cluster may use at a time, or binds one, or has devices or
    ResourceClaims that concern several nodes."""
    bindings: tuple[VolumeBinding, ...] = ()
    """How the claims of the pod are bound that are not bound yet."""
    devices: tuple[DeviceClaim, ...] = ()
    """What its ResourceClaims get, in their order, without their names."""


class Unplaceable(msgspec.Struct, frozen=True):
    """Why no node is feasible for a pod.

    ``refusals``: the reasons, each counted over ``nodes`` nodes; ``problem`` instead if the request is invalid;
    ``first_failing``: the reasons with each node counted once; ``closest``: the nodes that lack least, nearest first;
    ``caveats``: annotations that were interpreted leniently.
    """

    nodes: int
    refusals: tuple[Refusal, ...]
    problem: Problem | None = None
    closest: tuple[NearNode, ...] = ()
    caveats: tuple[str, ...] = ()
    first_failing: tuple[Refusal, ...] = ()
