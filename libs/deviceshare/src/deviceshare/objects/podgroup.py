"""PodGroups: gangs of pods, ``scheduling.volcano.sh/v1beta1``."""

import msgspec

from deviceshare.errors import Problem
from deviceshare.facts import GroupKey, PodGroupFact
from deviceshare.objects.lenient import decode_view, seconds
from deviceshare.objects.views import PodGroupObject, PodGroupSpec

_DECODER = msgspec.json.Decoder(PodGroupObject)
_EXPECTED = "a number of pods, 0 or more"


def decode_podgroup(raw: bytes) -> PodGroupFact:
    """Return the fact of a PodGroup given as JSON; what cannot be read is in ``problems`` and has its default.

    Its priority stays None: the object names a class, not a number.

    Raises:
        FormatError: where it has no name.
    """
    view, problems = decode_view(raw, _DECODER, "PodGroup")
    metadata, spec = view.metadata, view.spec or PodGroupSpec()
    key = f"{metadata.namespace or 'default'}/{metadata.name}"
    subject = f"PodGroup {key}"
    min_member = 1 if spec.min_member is None else spec.min_member
    if min_member < 0:
        problems.append(Problem(subject, "spec.minMember", str(min_member), _EXPECTED))
        min_member = 1
    min_task_member = {}
    for task, number in (spec.min_task_member or {}).items():
        if number < 0:
            problems.append(Problem(subject, f"spec.minTaskMember[{task}]", str(number), _EXPECTED))
        else:
            min_task_member[task] = number
    return PodGroupFact(
        revision=metadata.resource_version or "",
        key=GroupKey(key),
        uid=metadata.uid or "",
        queue=spec.queue or "default",
        min_member=min_member,
        min_task_member=min_task_member,
        created=seconds(metadata.creation_timestamp, subject, "metadata.creationTimestamp", problems),
        problems=tuple(problems),
    )
