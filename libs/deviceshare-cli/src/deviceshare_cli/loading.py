"""Manifests of a command: reading them, loading them, and naming the objects as ``kubectl`` does."""

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from deviceshare.conf import SCHEDULER, parse_conf
from deviceshare.model import ConfigFact, Problem
from deviceshare_localcluster import (
    Applied,
    LocalCluster,
    Manifest,
    Manifests,
    load_manifests,
    parse_manifests,
    read_manifests,
)
from deviceshare_localcluster.kinds import KINDS

from deviceshare_cli.errors import CommandError
from deviceshare_cli.result import RefusedPod, Rejected, refused_pod


class Loaded(NamedTuple):
    """The problems of a loaded directory."""

    rejected: list[Rejected]
    refused_pods: list[RefusedPod]
    warnings: list[str]


def read(paths: Iterable[str]) -> Manifests:
    """Read files and directories; ``-`` is standard input. Raises CommandError if one does not exist."""
    manifests: list[Manifest] = []
    problems: list[Problem] = []
    for path in paths:
        if path == "-":
            one = parse_manifests(sys.stdin.read(), "standard input")
        else:
            try:
                one = read_manifests(Path(path))
            except FileNotFoundError as error:
                raise CommandError(str(error)) from None
        manifests += one.manifests
        problems += one.problems
    return Manifests(manifests, problems)


def read_conf(path: Path) -> tuple[ConfigFact, tuple[str, ...]]:
    """Return the ``volcano-scheduler.conf`` of a file, and its warnings. Raises CommandError, ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise CommandError(f"--conf {path}: cannot be read: {reason}") from None
    fact = ConfigFact(name=SCHEDULER, text=text, source=f"File {path}")
    return fact, parse_conf(fact.text, fact.source).warnings


async def load(
    cluster: LocalCluster, directory: Path, schedulers: Iterable[str], report: Callable[[str], None]
) -> Loaded:
    """Load a directory into a cluster; ``report`` gets one line for each warning and each rejected object.

    Raises CommandError if it does not exist, ClusterError.
    """
    results, rejected, warnings = await load_manifests(cluster, read([str(directory)]), report)
    refused_pods = [
        pod
        for manifest, result in results
        if result.problem is not None
        and result.kind == "Pod"
        and (pod := refused_pod(manifest.object, result.namespace, result.name, str(result.problem), schedulers))
    ]
    return Loaded([Rejected(*each) for each in rejected], refused_pods, warnings)


def title(applied: Applied, api_version: str) -> str:
    """Return an object's name as ``kubectl apply`` prints it: ``pod/a``, ``job.batch.volcano.sh/a``."""
    return f"{_resource(applied.kind, api_version)}/{applied.name}"


def quoted_title(applied: Applied, api_version: str) -> str:
    """Return an object's name as ``kubectl delete`` prints it: ``pod "a"``."""
    return f'{_resource(applied.kind, api_version)} "{applied.name}"'


def _resource(name: str, api_version: str) -> str:
    kind = KINDS[name].kind if name in KINDS else name
    group, slash, _ = api_version.rpartition("/")
    return f"{kind.lower()}.{group}" if slash else kind.lower()
