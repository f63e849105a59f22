"""The data types that services exchange, and the errors of invalid input. Imports nothing of the library.

Reading order: :mod:`.facts` and :mod:`.cluster_facts` (state of the cluster), :mod:`.claims` (decisions),
:mod:`.explanations` (reasons), :mod:`.volumes` and :mod:`.storage_facts` (volumes of pods, and their objects),
:mod:`.problems` (errors of input), :mod:`.fields` (validation of input), :mod:`.quantities` (Kubernetes quantities),
:mod:`.shared_uids` (pods with one uid), :mod:`.bounded` (numbers in messages), :mod:`.requirements` and
:mod:`.pod_topology` (selectors of labels, inter-pod constraints), :mod:`.policies` (the choice among nodes and cards),
:mod:`.signatures` (HMAC of device annotations), :mod:`.revisions` (of objects, as numbers), :mod:`.fences` (claims that
must not be bound any more), :mod:`.traces` (ids of traces), :mod:`.backoff` (pauses between retries), :mod:`.now` (the
time as an argument).
"""

from deviceshare.model.backoff import REFUSED_RETRY as REFUSED_RETRY, Backoff as Backoff
from deviceshare.model.bounded import Amount as Amount, Count as Count, Real as Real
from deviceshare.model.claims import (
    BLOCKED as BLOCKED,
    BOUND as BOUND,
    FORBIDDEN as FORBIDDEN,
    INIT as INIT,
    MAY_GO as MAY_GO,
    REFUSED as REFUSED,
    SIDECAR as SIDECAR,
    UNMADE as UNMADE,
    WAITING_VERSION as WAITING_VERSION,
    WHOLE as WHOLE,
    WITHDRAWN as WITHDRAWN,
    Choice as Choice,
    Claim as Claim,
    ContainerGrant as ContainerGrant,
    DeviceGrant as DeviceGrant,
    Eviction as Eviction,
    HostPort as HostPort,
    NodeLedger as NodeLedger,
    NodeOutcomes as NodeOutcomes,
    Outcome as Outcome,
    Tenant as Tenant,
    with_made as with_made,
)
from deviceshare.model.cluster_facts import (
    DEFAULT_QUEUE as DEFAULT_QUEUE,
    AnyFact as AnyFact,
    ConfigFact as ConfigFact,
    Gone as Gone,
    NamespaceFact as NamespaceFact,
    PodDisruptionBudgetFact as PodDisruptionBudgetFact,
    PodGroupFact as PodGroupFact,
    PriorityClassFact as PriorityClassFact,
    QueueFact as QueueFact,
    Synced as Synced,
)
from deviceshare.model.device_claims import (
    ClaimRequest as ClaimRequest,
    DeviceClaim as DeviceClaim,
    DeviceResult as DeviceResult,
    PodDeviceClaim as PodDeviceClaim,
)
from deviceshare.model.device_facts import (
    DeviceClaimFact as DeviceClaimFact,
    DeviceClassFact as DeviceClassFact,
    DeviceFact as DeviceFact,
    DeviceSliceFact as DeviceSliceFact,
    DeviceTaintRuleFact as DeviceTaintRuleFact,
)
from deviceshare.model.disruptions import NO_DISRUPTION as NO_DISRUPTION, DisruptionLimit as DisruptionLimit
from deviceshare.model.explanations import (
    ADMITTED as ADMITTED,
    PENDING as PENDING,
    PLACED as PLACED,
    REJECTED as REJECTED,
    Explanation as Explanation,
    NearCard as NearCard,
    NearNode as NearNode,
    Refusal as Refusal,
    shown as shown,
    unavailable as unavailable,
    unit_of as unit_of,
)
from deviceshare.model.facts import (
    DEVICE_CLAIMS as DEVICE_CLAIMS,
    Card as Card,
    CardCordon as CardCordon,
    ContainerRequest as ContainerRequest,
    Fact as Fact,
    GroupKey as GroupKey,
    NodeFact as NodeFact,
    OtherPodFact as OtherPodFact,
    PodFact as PodFact,
    PodRequest as PodRequest,
    PodUid as PodUid,
    ResourceAmounts as ResourceAmounts,
    Resources as Resources,
    not_served as not_served,
)
from deviceshare.model.fences import (
    FENCE as FENCE,
    fence_entry as fence_entry,
    fenced_claims as fenced_claims,
    with_fence as with_fence,
)
from deviceshare.model.fields import Field as Field, FieldWarning as FieldWarning, Source as Source, as_text as as_text
from deviceshare.model.now import Now as Now
from deviceshare.model.pod_topology import (
    AFFINITY as AFFINITY,
    ANTI_AFFINITY as ANTI_AFFINITY,
    HOSTNAME as HOSTNAME,
    ImposedTerm as ImposedTerm,
    PodSelection as PodSelection,
    PodTerm as PodTerm,
    PodTopology as PodTopology,
    Selector as Selector,
    SpreadConstraint as SpreadConstraint,
    WeightedPodTerm as WeightedPodTerm,
    matches_labels as matches_labels,
)
from deviceshare.model.policies import (
    CARD_POLICY as CARD_POLICY,
    NO_POLICIES as NO_POLICIES,
    NODE_POLICY as NODE_POLICY,
    Policies as Policies,
)
from deviceshare.model.problems import (
    CARD_MISSING as CARD_MISSING,
    CARD_UNHEALTHY as CARD_UNHEALTHY,
    DEVICE_PROBLEMS as DEVICE_PROBLEMS,
    DEVICES_DIFFER as DEVICES_DIFFER,
    DEVICES_MISSING as DEVICES_MISSING,
    NODE_MISSING as NODE_MISSING,
    ConfigError as ConfigError,
    DeviceshareError as DeviceshareError,
    FormatError as FormatError,
    InputError as InputError,
    Problem as Problem,
    RequestError as RequestError,
    describe_error as describe_error,
    limited as limited,
)
from deviceshare.model.quantities import (
    LARGEST as LARGEST,
    Quantity as Quantity,
    format_quantity as format_quantity,
    is_native as is_native,
    mebibytes_hint as mebibytes_hint,
    parse_quantity as parse_quantity,
    to_amount as to_amount,
)
from deviceshare.model.requirements import (
    Labels as Labels,
    Preference as Preference,
    Requirement as Requirement,
    Taint as Taint,
    Toleration as Toleration,
    integer as integer,
    meets as meets,
)
from deviceshare.model.revisions import revision_number as revision_number
from deviceshare.model.shared_uids import alias as alias, object_uid as object_uid
from deviceshare.model.signatures import (
    ADMISSION as ADMISSION,
    admission_signed as admission_signed,
    admission_terms as admission_terms,
    read_keys as read_keys,
    sign as sign,
    sign_admission as sign_admission,
    signature_covers as signature_covers,
    signed as signed,
)
from deviceshare.model.storage_facts import (
    NodeTerms as NodeTerms,
    StorageClassFact as StorageClassFact,
    StorageFact as StorageFact,
    VolumeClaimFact as VolumeClaimFact,
    VolumeFact as VolumeFact,
    VolumeLimitsFact as VolumeLimitsFact,
)
from deviceshare.model.traces import (
    PHASES as PHASES,
    trace_id as trace_id,
    trace_ids as trace_ids,
    trace_number as trace_number,
)
from deviceshare.model.visible_text import shortened as shortened, visible as visible, visible_lines as visible_lines
from deviceshare.model.volumes import (
    VOLUMES as VOLUMES,
    Disk as Disk,
    PodVolume as PodVolume,
    VolumeBinding as VolumeBinding,
    VolumeUse as VolumeUse,
    uses_of as uses_of,
)
