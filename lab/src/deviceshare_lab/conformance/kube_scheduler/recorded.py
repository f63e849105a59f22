"""The form of a recorded case: a small cluster with one pod to place, and what kube-scheduler's plugins answer."""

from typing import Any

import msgspec

Object = dict[str, Any]
"""A Kubernetes object."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """The cluster, the pod to place, and the enabled plugins."""

    id: str
    family: str
    plugins: tuple[str, ...]
    tags: tuple[str, ...] = ()
    nodes: tuple[Object, ...]
    pod: Object
    pods: tuple[Object, ...] = ()
    namespaces: tuple[Object, ...] = ()
    pvcs: tuple[Object, ...] = ()
    pvs: tuple[Object, ...] = ()
    storageclasses: tuple[Object, ...] = ()
    csinodes: tuple[Object, ...] = ()


class PluginAnswer(msgspec.Struct, frozen=True):
    """Why a plugin refuses a node."""

    code: str = ""
    reasons: tuple[str, ...] = ()


class NodeAnswer(msgspec.Struct, frozen=True):
    """The answer for one node; ``each``: what every plugin that refuses it says by itself."""

    fits: bool
    code: str = ""
    plugin: str = ""
    reasons: tuple[str, ...] = ()
    each: dict[str, PluginAnswer] = {}


class Scores(msgspec.Struct, frozen=True):
    """The scores of the feasible nodes by plugin."""

    raw: dict[str, tuple[int, ...]] = {}
    normalized: dict[str, tuple[int, ...]] = {}


class VolumeAnswer(msgspec.Struct, frozen=True):
    """What is bound on a node: claims with their volumes, and claims for which volumes are made."""

    static: tuple[tuple[str, str], ...] = ()
    provision: tuple[str, ...] = ()


class Answer(msgspec.Struct, frozen=True):
    """The answer: ``feasible`` nodes in the order of the scores; ``prefilter``: plugins that reject the whole pod."""

    nodes: dict[str, NodeAnswer]
    feasible: tuple[str, ...] = ()
    scores: Scores | None = None
    prefilter: dict[str, PluginAnswer] = {}
    volumes: dict[str, VolumeAnswer] = {}


class Recorded(msgspec.Struct, frozen=True):
    """One line of a file."""

    case: Case
    answer: Answer
