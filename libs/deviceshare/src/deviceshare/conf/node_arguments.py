"""Reading the arguments of Volcano's plugins that look at nodes (:mod:`deviceshare.conf.node_plugins`)."""

from collections.abc import Mapping
from typing import Any

from deviceshare.conf.document import as_text
from deviceshare.conf.known import OLD_FLAGS
from deviceshare.conf.node_plugins import (
    BINPACK_CPU,
    BINPACK_MEMORY,
    BINPACK_RESOURCES,
    BINPACK_WEIGHT,
    NO_PREDICATES,
    NODEORDER_ARGUMENTS,
    PREDICATE_ARGUMENTS,
    PREDICATES_WITHOUT_EFFECT,
    Binpack,
    NodeOrder,
    Predicates,
)
from deviceshare.conf.reading import Reader

Arguments = Mapping[str, tuple[Any, str]]
"""Arguments of one plugin by name: the value as YAML has it, and its path in the file."""

_LARGEST_WEIGHT = 1_000_000


def read_predicates(reader: Reader, arguments: Arguments, enabled: bool) -> Predicates:
    """Return which predicates count; ``enabled``: the plugin is not switched off."""
    _known(reader, arguments, (*PREDICATE_ARGUMENTS, *PREDICATES_WITHOUT_EFFECT, *OLD_FLAGS))
    if not enabled:
        return NO_PREDICATES
    given = {
        field: reader.truth(arguments[name][1], arguments[name][0])
        for name, field in PREDICATE_ARGUMENTS.items()
        if _stands(arguments, name)
    }
    return Predicates(**given)


def read_nodeorder(reader: Reader, arguments: Arguments) -> NodeOrder:
    """Return the weights of nodeorder."""
    _known(reader, arguments, tuple(NODEORDER_ARGUMENTS))
    given = {
        field: _weight(reader, arguments, name)
        for name, field in NODEORDER_ARGUMENTS.items()
        if _stands(arguments, name)
    }
    return NodeOrder(**given)


def read_binpack(reader: Reader, arguments: Arguments) -> Binpack:
    """Return the weights of binpack. As with Volcano a resource whose weight is below 0 weighs 1."""
    value, field = arguments.get(BINPACK_RESOURCES, (None, ""))
    if value is not None and not isinstance(value, str):
        raise reader.error(field, value, "names of resources separated by commas, such as nvidia.com/gpu")
    names = [name.strip() for name in (value or "").split(",") if name.strip()]
    of_resources = {"cpu": BINPACK_CPU, "memory": BINPACK_MEMORY}
    of_resources |= {name: f"{BINPACK_RESOURCES}.{name}" for name in sorted(names) if name not in of_resources}
    known = (BINPACK_WEIGHT, BINPACK_RESOURCES, *of_resources.values())
    unlisted = [name for name in arguments if name.startswith(f"{BINPACK_RESOURCES}.") and name not in known]
    for name in unlisted:
        reader.warn(arguments[name][1], f"is ignored: {BINPACK_RESOURCES} does not name this resource")
    _known(reader, {name: entry for name, entry in arguments.items() if name not in unlisted}, known)
    weights = {name: _weight(reader, arguments, argument) for name, argument in of_resources.items()}
    return Binpack(
        weight=_weight(reader, arguments, BINPACK_WEIGHT),
        resources=tuple((name, weight if weight >= 0 else 1) for name, weight in weights.items()),
    )


def _stands(arguments: Arguments, name: str) -> bool:
    return name in arguments and as_text(arguments[name][0]).strip() != ""


def _weight(reader: Reader, arguments: Arguments, name: str) -> int:
    """Return a weight, 1 where none stands."""
    if not _stands(arguments, name):
        return 1
    value, field = arguments[name]
    return reader.whole(field, value, -_LARGEST_WEIGHT, _LARGEST_WEIGHT)


def _known(reader: Reader, arguments: Arguments, names: tuple[str, ...]) -> None:
    for name, (_, field) in arguments.items():
        reader.is_known(field.partition("[" + name)[0], name, names, "argument")
