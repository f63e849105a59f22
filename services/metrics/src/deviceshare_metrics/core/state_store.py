"""The state of the metrics core: the last message of every subject, and the history of every pod.

Messages of different streams are not joined here (:mod:`~deviceshare_metrics.core.snapshot` joins them): a message
costs little more than its decoding, and the order in which streams are read makes no difference.
"""

import msgspec
from deviceshare.conf import SchedulerConf, default_conf
from deviceshare.model import (
    DeviceClassFact,
    Explanation,
    NodeFact,
    NodeLedger,
    NodeOutcomes,
    OtherPodFact,
    PodGroupFact,
    PodUid,
    PriorityClassFact,
    Problem,
    QueueFact,
)
from msgspec.structs import asdict, replace

from deviceshare_metrics.core.claimed_devices import PublishedSlice, ResourceClaimSeen
from deviceshare_metrics.core.facts import PodSeen

MAX_STEPS = 100
"""Steps kept per pod, the latest ones."""


class PodStep(msgspec.Struct, frozen=True, gc=False):
    """One step in the life of a pod: the service that took it, and the fields of the message."""

    service: str
    name: str
    at: float
    node: str
    message: str


class PodHistory(msgspec.Struct, frozen=True, gc=False):
    """What was decided about a pod and which steps it took, also of a pod that is gone.

    ``pod`` is ``namespace/name``. ``steps`` are in the order of arrival. ``seen`` and ``bound``
    are the times of the first steps of these names, ``last`` is the time of the latest step or explanation (unix
    seconds).
    """

    pod: str
    explanation: Explanation | None = None
    steps: tuple[PodStep, ...] = ()
    seen: float | None = None
    bound: float | None = None
    last: float = 0.0


class StateStore(msgspec.Struct):
    """Everything that has been read. Only the core changes it.

    The values of the dicts are immutable, so that a shallow copy is consistent and can be read in another thread. The
    dicts are by subject, except ``histories``, which is by uid, in the order of the last changes.

    ``conf`` is the configuration by which placement decides. ``synced``: inventory has published the whole cluster
    once. ``version`` changes with every message that can change a snapshot: all but those of EVENT.
    """

    nodes: dict[str, NodeFact] = {}
    pods: dict[str, PodSeen] = {}
    others: dict[str, OtherPodFact] = {}
    """Waiting pods of other schedulers."""
    groups: dict[str, PodGroupFact] = {}
    queues: dict[str, QueueFact] = {}
    classes: dict[str, PriorityClassFact] = {}
    device_classes: dict[str, DeviceClassFact] = {}
    device_slices: dict[str, PublishedSlice] = {}
    device_claims: dict[str, ResourceClaimSeen] = {}
    ledgers: dict[str, NodeLedger] = {}
    """Without nominated claims: their devices are other pods', and their pods still wait."""
    nominations: dict[str, tuple[tuple[PodUid, str], ...]] = {}
    """The pods of nominated claims, and their node."""
    going: dict[str, int] = {}
    """How many pods of a node have to go for others."""
    outcomes: dict[str, NodeOutcomes] = {}
    histories: dict[str, PodHistory] = {}
    conf: SchedulerConf = msgspec.field(default_factory=default_conf)
    configuration_problems: dict[str, Problem] = {}
    """Why the latest version of a configuration cannot be used, by the name of its fact."""
    invalid: dict[str, str] = {}
    """Why the last message of a subject is not valid; what is shown of its object is the message before it."""
    synced: bool = False
    version: int = 0

    def copy(self) -> "StateStore":
        """Return a copy that does not change; takes some milliseconds for 100,000 objects."""
        fields = asdict(self)
        return replace(self, **{name: value.copy() for name, value in fields.items() if isinstance(value, dict)})
