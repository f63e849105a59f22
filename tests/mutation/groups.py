"""Groups of modules, and the fast tests that concern each group.

A mutant counts as killed only if one of these tests fails, therefore slow tests of the whole system are left out: what
only they notice is reported as survived.
"""

from dataclasses import dataclass
from pathlib import Path

_LIBRARY = "libs/deviceshare/src/deviceshare"
_BUS = "libs/deviceshare-bus/src/deviceshare_bus"
_CLUSTER = "libs/deviceshare-cluster/src/deviceshare_cluster"
_LOCAL_CLUSTER = "libs/deviceshare-localcluster/src/deviceshare_localcluster"
_PLACEMENT = "services/placement/src/deviceshare_placement"
_BINDER = "services/binder/src/deviceshare_binder"
_INVENTORY = "services/inventory/src/deviceshare_inventory"
_METRICS = "services/metrics/src/deviceshare_metrics"


@dataclass(frozen=True)
class Group:
    """Modules that are measured together."""

    name: str
    sources: tuple[str, ...]
    """Modules, and directories of modules, relative to the repository."""
    tests: str
    """Patterns of test files, relative to ``tests``, in the order in which they run: the fastest first."""
    skipped: tuple[str, ...] = ()
    """Modules that no fast test runs: entry points of processes, and clients of a real kube-apiserver."""
    compiled: bool = True
    """Whether the tests use compiled modules; mutants of these need them as plain Python."""

    confirmed: bool = False
    """Whether a failure is repeated, with and without the mutant: on real servers a test may fail without a mutant."""

    def modules(self, root: Path) -> list[Path]:
        """Return the modules of the group, sorted."""
        skipped = {root / name for name in self.skipped}
        return sorted(
            path
            for source in self.sources
            for path in ([root / source] if source.endswith(".py") else (root / source).rglob("*.py"))
            if path.name != "__main__.py" and not skipped & {path, *path.parents}
        )

    def test_files(self, root: Path) -> list[Path]:
        """Return the test files of the group in the order in which they run, each once, relative to the repository."""
        found = (path for pattern in self.tests.split() for path in sorted((root / "tests").glob(pattern)))
        return list(dict.fromkeys(path.relative_to(root) for path in found))


GROUPS = (
    Group(
        "bus",
        (_BUS,),
        (
            "bus/test_core_log.py bus/test_watch_backoff.py bus/test_shell*.py bus/test_requests.py "
            "bus/test_latest_writer.py bus/test_[!fcp]*.py bus/test_con*.py bus/test_p*.py bus/test_follower*.py "
            "services/test_http_*.py security/test_bus_*.py"
        ),
        compiled=False,
        confirmed=True,
    ),
    Group("binder", (_BINDER,), "services/test_binder_[!a]*.py services/test_binder*.py"),
    Group(
        "scheduler",
        (f"{_LIBRARY}/scheduler",),
        "library/test_scheduler.py library/test_trial.py placement/test_placement_[!r]*.py placement/test_*.py",
    ),
    Group("placement", (_PLACEMENT,), "placement/test_placement_[!r]*.py placement/test_*.py"),
    Group("inventory", (_INVENTORY,), "services/test_inventory_[!c]*.py services/test_inventory*.py", confirmed=True),
    Group("metrics", (_METRICS,), "services/test_metrics_[!l]*.py services/test_metrics*.py", confirmed=True),
    Group(
        "conf",
        (f"{_LIBRARY}/conf",),
        (
            "library/test_conf*.py library/test_effective_configuration.py library/test_positions.py "
            "placement/test_placement_configuration.py examples/test_configurations.py "
            "docs/test_configuration_page.py library/test_ordering.py library/test_node_scores.py "
            "library/test_queue_*.py"
        ),
    ),
    Group(
        "topology",
        (f"{_LIBRARY}/topology",),
        "library/test_inter_pod_random.py placement/test_placement_inter_pod.py",
    ),
    Group(
        "volumes",
        (f"{_LIBRARY}/volumes",),
        (
            "library/test_volumes_random.py library/test_volumes_unbound.py "
            "placement/test_placement_unbound_claims.py placement/test_placement_volumes.py"
        ),
    ),
    Group(
        "queueing",
        (f"{_LIBRARY}/queueing", f"{_LIBRARY}/policies"),
        (
            "library/test_ordering.py library/test_ordering_[bs]*.py library/test_borrowing.py "
            "library/test_enqueue.py library/test_policies.py library/test_proportion.py library/test_queue_*.py "
            "library/test_re*.py "
            "placement/test_placement_queue*.py placement/test_placement_core.py library/test_ordering_properties.py"
        ),
    ),
    Group("preemption", (f"{_LIBRARY}/preemption",), "library/test_preemption*.py cli/test_conformance_preemption.py"),
    Group(
        "families",
        (f"{_LIBRARY}/families",),
        (
            "library/test_wire_*.py library/test_family_*.py library/test_mig*.py library/test_selection.py "
            "library/test_trust.py library/test_queue_amounts.py library/test_vgpu_requests.py "
            "library/test_whole_devices.py library/test_device_plugins.py library/test_golden.py "
            "library/test_feasibility.py library/test_vgpu_properties.py"
        ),
        skipped=(f"{_LIBRARY}/families/dra",),
    ),
    Group(
        "devices",
        (f"{_LIBRARY}/families/dra",),
        (
            "library/test_dra_*.py library/test_objects_devices.py library/test_device_[st]*.py "
            "library/test_queue_device_claims.py library/test_scheduler_devices*.py services/test_binder_devices.py"
        ),
    ),
    Group(
        "allocator",
        (f"{_LIBRARY}/allocation", f"{_LIBRARY}/state"),
        (
            "library/test_diagnosis.py library/test_h*.py library/test_node_[rst]*.py library/test_resource_names.py "
            "library/test_claim_check.py library/test_mig*.py library/test_family_hami_vnpu_placing.py "
            "library/test_nodes_recorded.py library/test_pod_*.py library/test_predicates.py library/test_ties.py "
            "library/test_reserved_nodes.py library/test_family_hami_core.py library/test_allocator_properties.py "
            "library/test_feasibility.py library/test_undo_log.py"
        ),
    ),
    Group(
        "kernels",
        (f"{_LIBRARY}/kernels",),
        (
            "library/test_selection.py library/test_ties.py library/test_family_*.py library/test_mig*.py "
            "library/test_card_order.py library/test_node_scores.py library/test_allocator_plain.py "
            "library/test_golden.py"
        ),
        compiled=False,
    ),
    Group("traces", ("lab/src/deviceshare_lab/traces",), "library/test_traces.py", compiled=False),
    Group(
        "objects",
        (f"{_LIBRARY}/objects", f"{_LIBRARY}/model", f"{_LIBRARY}/lazy_imports.py"),
        (
            "library/test_objects_*.py library/test_quantity.py library/test_fields.py library/test_backoff.py "
            "library/test_predicates.py library/test_family_*annotations.py library/test_mig_pods.py "
            "library/test_trust.py placement/test_placement_core.py"
        ),
    ),
    Group(
        "cluster",
        (_CLUSTER, _LOCAL_CLUSTER),
        (
            "contract/test_conflicts.py contract/test_newest_changes.py local_cluster/test_local_a*.py "
            "local_cluster/test_local_[!ap]*.py local_cluster/test_jobs_recorded.py contract/test_cluster_*.py"
        ),
        skipped=(f"{_CLUSTER}/kube",),
        confirmed=True,
    ),
)
