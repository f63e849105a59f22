"""What only some families need, with defaults for all others: other modules call these members and name no vendor."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, Protocol

from deviceshare.conf import DeviceSection, SchedulerConf
from deviceshare.model import CardCordon, DeviceGrant, FormatError, Problem


class Program(NamedTuple):
    """A program of the cluster, found by the image of its pods (a regular expression), and what to do with it."""

    name: str
    image: str
    advice: str


class DevicesByNode(NamedTuple):
    """The contents of a ConfigMap: the devices of each node, and the problems of invalid parts.

    ``folded``: it describes many nodes, and takes precedence over ConfigMaps that describe one.
    """

    devices: dict[str, dict[str, str]]
    problems: tuple[Problem, ...] = ()
    folded: bool = False


class Hooks(Protocol):
    """The optional members of a family."""

    section: type[DeviceSection] | None = None
    """The family's section of device-config.yaml (:meth:`~deviceshare.conf.DevicesConf.section`); None for none."""
    register_annotation: str = ""
    """The annotation by which a device plugin registers cards; '' if there is none, or several."""
    domains: frozenset[str] = frozenset()
    """The domains of annotations by which device plugins of the vendor register cards, also ones that are not read."""
    programs: tuple[Program, ...] = ()
    """The programs that belong to the family."""
    apart_annotation: str = ""
    """An annotation of pods: with ``spread`` the pod shares no card with other pods of its PodGroup. '' for none."""
    policy_annotations: tuple[str, ...] = ()
    """The annotations by which a pod selects the policies for nodes and for cards, where ours are missing."""
    counts_cores: bool = True
    """Whether the cores of a card are an amount of their own; they may also follow from its memory."""
    sliced_modes: frozenset[str] = frozenset()
    """The modes of cards whose parts the map of cards shows."""
    series: tuple[str, str] = ("", "")
    """The prefix of further metrics of its cards, and the name of a share in their texts; '' for none."""

    def is_deleted(self, annotations: Mapping[str, str]) -> bool:
        """Return whether the registration of a node was deleted and left behind."""
        return False

    def unread_registers(self, annotations: Mapping[str, str]) -> Iterable[tuple[str, str]]:
        """Return the annotations of a node that register devices that no family reads, and what would be read."""
        return ()

    def cordoned(self, annotations: Mapping[str, str]) -> tuple[CardCordon, ...]:
        """Return the cards that an annotation of the node excludes; they may be gone."""
        return ()

    def read_policy(self, key: str, text: str) -> str:
        """Return the policy in one of ``policy_annotations``, '' for none. Raises FormatError."""
        return ""

    def describes_devices(self, namespace: str, name: str) -> bool:
        """Return whether :meth:`read_devices` reads a ConfigMap."""
        return False

    def read_devices(
        self, namespace: str, name: str, labels: Mapping[str, str], data: Mapping[str, str]
    ) -> DevicesByNode:
        """Parse a ConfigMap with the devices of nodes (:meth:`.protocol.NodeView.devices`). Raises FormatError."""
        raise FormatError(f"ConfigMap {namespace}/{name}", "metadata.name", name, "a ConfigMap of the family")

    def memory_unit(self, conf: SchedulerConf) -> int:
        """Return the MiB in one unit of the memory of cards and grants."""
        return 1

    def device_id(self, device: DeviceGrant) -> str:
        """Return the device plugin's id of a device."""
        return device.id
