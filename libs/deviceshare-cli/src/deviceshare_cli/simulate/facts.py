"""Objects into facts: as inventory publishes them, or beside the facts of a running system. Pure."""

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec
from deviceshare.model import ConfigFact, Fact, FormatError, Gone
from deviceshare.objects import DECODERS, STORAGE_KINDS
from deviceshare_bus.messages.codec import encode
from deviceshare_bus.messages.subjects import Stream, subject_of
from deviceshare_cluster.interface import Change, ChangeType, Object
from deviceshare_inventory.core.configs import Remark
from deviceshare_inventory.core.desired_state import DesiredState
from deviceshare_inventory.core.fact_builder import FactBuilder
from deviceshare_inventory.core.reports import Reference, Reports
from deviceshare_localcluster.kinds import kind_of

from deviceshare_cli.reading.reader import StoredMessage

ADDED = tuple(kind for kind in DECODERS if kind not in STORAGE_KINDS)
"""The kinds of objects that can be added to the facts of a running system: their facts depend on no other objects."""


class WantedFacts(DesiredState):
    """The facts that are wanted, by subject, until they are taken."""

    def __init__(self) -> None:
        super().__init__()
        self.facts: dict[str, Fact] = {}

    def want(self, subject: str, fact: Fact, revision: int, generation: int = 0, *, kept: bool = False) -> None:
        """Keep the fact."""
        if isinstance(fact, Gone):
            self.facts.pop(subject, None)
        else:
            self.facts[subject] = fact
        super().want(subject, fact, revision, generation, kept=kept)

    def take(self) -> dict[str, Fact]:
        """Return the facts since the last call."""
        found, self.facts = self.facts, {}
        return found


class _Remarks(Reports):
    """The remarks about objects, as lines; nothing is recorded."""

    def __init__(self) -> None:
        super().__init__(0.0)
        self.lines: dict[str, None] = {}

    def report(
        self, subject: str, about: Reference | None, remarks: Sequence[Remark], passing: Collection[Remark] = ()
    ) -> None:
        """Keep the remarks."""
        where = subject if about is None else f"{about.kind} {'/'.join(filter(None, (about.namespace, about.name)))}"
        # A problem names its object.
        self.lines |= dict.fromkeys(f"{where}: {each}" if isinstance(each, str) else str(each) for each in remarks)


class Inventory:
    """The facts of a cluster whose objects are listed once, and of objects that are created later.

    Args:
        schedulers: the values of ``spec.schedulerName`` that are served.
        conf: the scheduler's configuration, None to read a ConfigMap of the cluster.
    """

    def __init__(self, schedulers: Iterable[str], conf: ConfigFact | None = None) -> None:
        self._facts, self._remarks = WantedFacts(), _Remarks()
        self._builder = FactBuilder(frozenset(schedulers), (), conf, self._facts, self._remarks)
        self._revision = 0

    def exist(self, objects: Iterable[Object]) -> dict[str, Fact]:
        """Return the facts by subject of all objects that exist."""
        self._builder.begin_list()
        for obj in objects:
            self._builder.apply(self._change(obj))
        self._builder.end_list(self._revision)
        return self._facts.take()

    def created(self, objects: Iterable[Object]) -> dict[str, Fact]:
        """Return the facts by subject that are new after objects were created."""
        for obj in objects:
            self._builder.apply(self._change(obj))
        return self._facts.take()

    @property
    def remarks(self) -> list[str]:
        """Lines about fields of the objects that are not valid."""
        return [*self._remarks.lines]

    def _change(self, obj: Object) -> Change:
        self._revision += 1
        metadata = obj["metadata"]
        raw = msgspec.json.encode({**obj, "metadata": {**metadata, "resourceVersion": str(self._revision)}})
        namespace, name = metadata.get("namespace", ""), metadata["name"]
        return Change(ChangeType.APPLIED, kind_of(obj), namespace, name, self._revision, raw)


def decoded(objects: Iterable[Object]) -> dict[str, Fact]:
    """Return the facts by subject of objects of the kinds in :data:`ADDED`. Raises FormatError."""
    found = {}
    for obj in objects:
        kind, metadata = obj["kind"], obj["metadata"]
        if kind not in ADDED:
            raise FormatError(f"{kind} {metadata['name']}", "kind", kind, f"one of {', '.join(ADDED)}")
        fact = DECODERS[kind](msgspec.json.encode(obj))
        found[subject_of(fact)] = fact
    return found


def messages(facts: Mapping[str, Fact]) -> list[StoredMessage]:
    """Return facts as messages of CLUSTER, without a sequence."""
    return [StoredMessage(Stream.CLUSTER, subject, 0, encode(fact)) for subject, fact in facts.items()]
