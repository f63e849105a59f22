"""The annotations of Pods, PodGroups and Queues that select policies: ours, and HAMi's."""

from collections.abc import Mapping

from deviceshare.families.hami_gpu import wire as hami_gpu_wire
from deviceshare.model import CARD_POLICY, NO_POLICIES, NODE_POLICY, POLICIES, Policies
from deviceshare.objects.problems import Problems

POLICY_ANNOTATIONS = frozenset({NODE_POLICY, CARD_POLICY, hami_gpu_wire.NODE_POLICY, hami_gpu_wire.GPU_POLICY})


def read_policies(annotations: Mapping[str, str] | None, problems: Problems) -> Policies:
    """Return the policies that annotations select; an invalid one counts as missing and is added to ``problems``.

    HAMi's annotations count where ours are missing. Those of its policies that deviceshare does not have are invalid.
    """
    if not annotations or POLICY_ANNOTATIONS.isdisjoint(annotations):
        return NO_POLICIES
    node, card = _policy(annotations, NODE_POLICY, problems), _policy(annotations, CARD_POLICY, problems)
    hami_node = _policy_of_hami(annotations, hami_gpu_wire.NODE_POLICY, problems)
    hami_card = _policy_of_hami(annotations, hami_gpu_wire.GPU_POLICY, problems)
    return Policies(node or hami_node, card or hami_card)


def _policy(annotations: Mapping[str, str], key: str, problems: Problems) -> str:
    policy = annotations.get(key, "").strip()
    if policy and policy not in POLICIES:
        problems.add(f"metadata.annotations[{key}]", policy, f"one of {', '.join(POLICIES)}")
        return ""
    return policy


def _policy_of_hami(annotations: Mapping[str, str], key: str, problems: Problems) -> str:
    text = annotations.get(key)
    policy = hami_gpu_wire.policy(text)
    if policy is None:
        expected = f"{hami_gpu_wire.BINPACK} or {hami_gpu_wire.SPREAD}: other policies of HAMi are not supported"
        problems.add(f"metadata.annotations[{key}]", text or "", expected)
    return policy or ""
