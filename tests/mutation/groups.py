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
    """Directories of the modules, relative to the repository."""
    tests: tuple[str, ...]
    """Patterns of test files, relative to the repository, in the order in which they run: the fastest first."""
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
            for path in (root / source).rglob("*.py")
            if path.name != "__main__.py" and not skipped & {path, *path.parents}
        )

    def test_files(self, root: Path) -> list[Path]:
        """Return the test files of the group in the order in which they run, each once, relative to the repository."""
        found = (path for pattern in self.tests for path in sorted(root.glob(pattern)))
        return list(dict.fromkeys(path.relative_to(root) for path in found))


GROUPS = (
    Group(
        "bus",
        (_BUS,),
        (
            "tests/bus/test_core_log.py",
            "tests/bus/test_watch_backoff.py",
            "tests/bus/test_shell*.py",
            "tests/bus/test_requests.py",
            "tests/bus/test_latest_writer.py",
            "tests/bus/test_[!fcp]*.py",
            "tests/bus/test_con*.py",
            "tests/bus/test_p*.py",
            "tests/bus/test_follower*.py",
            "tests/services/test_http_*.py",
            "tests/security/test_bus_*.py",
        ),
        compiled=False,
        confirmed=True,
    ),
    Group(
        "binder",
        (_BINDER,),
        ("tests/services/test_binder_[!a]*.py", "tests/services/test_binder*.py"),
    ),
    Group(
        "scheduler",
        (f"{_LIBRARY}/scheduler",),
        (
            "tests/library/test_scheduler.py",
            "tests/library/test_trial.py",
            "tests/placement/test_placement_[!r]*.py",
            "tests/placement/test_*.py",
        ),
    ),
    Group("placement", (_PLACEMENT,), ("tests/placement/test_placement_[!r]*.py", "tests/placement/test_*.py")),
    Group(
        "inventory",
        (_INVENTORY,),
        ("tests/services/test_inventory_[!c]*.py", "tests/services/test_inventory*.py"),
        confirmed=True,
    ),
    Group(
        "metrics",
        (_METRICS,),
        ("tests/services/test_metrics_[!l]*.py", "tests/services/test_metrics*.py"),
        confirmed=True,
    ),
    Group(
        "conf",
        (f"{_LIBRARY}/conf",),
        (
            "tests/library/test_conf*.py",
            "tests/library/test_effective_configuration.py",
            "tests/library/test_positions.py",
            "tests/placement/test_placement_configuration.py",
            "tests/examples/test_configurations.py",
            "tests/docs/test_configuration_page.py",
            "tests/library/test_ordering.py",
            "tests/library/test_node_scores.py",
            "tests/library/test_queue_*.py",
        ),
    ),
    Group(
        "topology",
        (f"{_LIBRARY}/topology",),
        ("tests/library/test_inter_pod_random.py", "tests/placement/test_placement_inter_pod.py"),
    ),
    Group(
        "volumes",
        (f"{_LIBRARY}/volumes",),
        (
            "tests/library/test_volumes_random.py",
            "tests/library/test_volumes_unbound.py",
            "tests/placement/test_placement_unbound_claims.py",
            "tests/placement/test_placement_volumes.py",
        ),
    ),
    Group(
        "queueing",
        (f"{_LIBRARY}/queueing",),
        (
            "tests/library/test_ordering.py",
            "tests/library/test_ordering_[bs]*.py",
            "tests/library/test_borrowing.py",
            "tests/library/test_enqueue.py",
            "tests/library/test_proportion.py",
            "tests/library/test_queue_*.py",
            "tests/library/test_re*.py",
            "tests/placement/test_placement_queues.py",
            "tests/placement/test_placement_core.py",
            "tests/library/test_ordering_properties.py",
        ),
    ),
    Group(
        "families",
        (f"{_LIBRARY}/families",),
        (
            "tests/library/test_wire_*.py",
            "tests/library/test_family_*.py",
            "tests/library/test_mig*.py",
            "tests/library/test_selection.py",
            "tests/library/test_trust.py",
            "tests/library/test_queue_amounts.py",
            "tests/library/test_vgpu_requests.py",
            "tests/library/test_whole_devices.py",
            "tests/library/test_device_plugins.py",
            "tests/library/test_golden.py",
            "tests/library/test_feasibility.py",
        ),
    ),
    Group(
        "allocator",
        (f"{_LIBRARY}/allocation", f"{_LIBRARY}/state"),
        (
            "tests/library/test_diagnosis.py",
            "tests/library/test_h*.py",
            "tests/library/test_node_[rst]*.py",
            "tests/library/test_resource_names.py",
            "tests/library/test_claim_check.py",
            "tests/library/test_mig*.py",
            "tests/library/test_family_hami_vnpu_placing.py",
            "tests/library/test_nodes_recorded.py",
            "tests/library/test_pod_*.py",
            "tests/library/test_predicates.py",
            "tests/library/test_ties.py",
            "tests/library/test_reserved_nodes.py",
            "tests/library/test_family_hami_core.py",
            "tests/library/test_allocator_properties.py",
            "tests/library/test_feasibility.py",
        ),
    ),
    Group(
        "kernels",
        (f"{_LIBRARY}/kernels",),
        (
            "tests/library/test_selection.py",
            "tests/library/test_ties.py",
            "tests/library/test_family_*.py",
            "tests/library/test_mig*.py",
            "tests/library/test_node_scores.py",
            "tests/library/test_allocator_plain.py",
            "tests/library/test_golden.py",
        ),
        compiled=False,
    ),
    Group("traces", ("lab/src/deviceshare_lab/traces",), ("tests/library/test_traces.py",), compiled=False),
    Group(
        "objects",
        (f"{_LIBRARY}/objects", f"{_LIBRARY}/model"),
        (
            "tests/library/test_objects_*.py",
            "tests/library/test_quantity.py",
            "tests/library/test_fields.py",
            "tests/library/test_backoff.py",
            "tests/library/test_predicates.py",
            "tests/library/test_family_*annotations.py",
            "tests/library/test_mig_pods.py",
            "tests/library/test_trust.py",
            "tests/placement/test_placement_core.py",
        ),
    ),
    Group(
        "cluster",
        (_CLUSTER, _LOCAL_CLUSTER),
        (
            "tests/contract/test_conflicts.py",
            "tests/contract/test_newest_changes.py",
            "tests/local_cluster/test_local_a*.py",
            "tests/local_cluster/test_local_[!ap]*.py",
            "tests/local_cluster/test_jobs_recorded.py",
            "tests/contract/test_cluster_*.py",
        ),
        skipped=(f"{_CLUSTER}/kube",),
        confirmed=True,
    ),
)
