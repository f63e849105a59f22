"""The annotations of Pods, PodGroups and Queues that select policies: ours, and those of device families."""

from collections.abc import Mapping

from deviceshare.families import FAMILIES, Family, pod_keys
from deviceshare.model import CARD_POLICY, NO_POLICIES, NODE_POLICY, FormatError, Policies
from deviceshare.objects.problems import Problems
from deviceshare.policies import POLICIES


def node_policy_annotations() -> frozenset[str]:
    """Return the annotations that select the policy for nodes."""
    return frozenset({NODE_POLICY, *(name for family in FAMILIES for name in family.policy_annotations[:1])})


def read_policies(annotations: Mapping[str, str] | None, problems: Problems) -> Policies:
    """Return the policies that annotations select; an invalid one counts as missing and is added to ``problems``.

    The annotations of device families count where ours are missing.
    """
    if not annotations or pod_keys().policies.isdisjoint(annotations):
        return NO_POLICIES
    node, card = _policy(annotations, NODE_POLICY, problems), _policy(annotations, CARD_POLICY, problems)
    for family in FAMILIES:
        if family.policy_annotations:
            of_node, of_card = (_of_family(family, annotations, key, problems) for key in family.policy_annotations)
            node, card = node or of_node, card or of_card
    return Policies(node, card)


def _policy(annotations: Mapping[str, str], key: str, problems: Problems) -> str:
    policy = annotations.get(key, "").strip()
    if policy and policy not in POLICIES:
        problems.add(f"metadata.annotations[{key}]", policy, f"one of {', '.join(POLICIES)}")
        return ""
    return policy


def _of_family(family: Family, annotations: Mapping[str, str], key: str, problems: Problems) -> str:
    try:
        return family.read_policy(key, annotations.get(key, ""))
    except FormatError as error:
        invalid = error.problem
        problems.add(invalid.field, invalid.value, invalid.expected)
        return ""
