"""Reading the arguments of Volcano's plugins that filter or score nodes (:mod:`deviceshare.conf.node_plugins`)."""

from collections.abc import Mapping

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
from deviceshare.conf.reading import ConfField

Arguments = Mapping[str, ConfField]
"""Arguments of one plugin by name."""

_LARGEST_WEIGHT = 1_000_000


def read_predicates(arguments: Arguments, enabled: bool) -> Predicates:
    """Return the enabled predicates; ``enabled``: the plugin's function ``Predicate`` is on."""
    _check_names(arguments, (*PREDICATE_ARGUMENTS, *PREDICATES_WITHOUT_EFFECT, *OLD_FLAGS))
    if not enabled:
        return NO_PREDICATES
    given = {
        field: arguments[name].boolean() for name, field in PREDICATE_ARGUMENTS.items() if _is_given(arguments, name)
    }
    return Predicates(**given)


def read_nodeorder(arguments: Arguments) -> NodeOrder:
    """Return the weights of nodeorder."""
    _check_names(arguments, tuple(NODEORDER_ARGUMENTS))
    given = {
        field: _weight(arguments, name) for name, field in NODEORDER_ARGUMENTS.items() if _is_given(arguments, name)
    }
    return NodeOrder(**given)


def read_binpack(arguments: Arguments) -> Binpack:
    """Return the weights of binpack. As in Volcano, a resource with a weight below 0 has the weight 1."""
    listed = arguments.get(BINPACK_RESOURCES)
    if listed is not None and not isinstance(listed.value, str | None):
        raise listed.error("names of resources separated by commas, such as nvidia.com/gpu")
    text = (listed.value if listed else None) or ""
    names = [name.strip() for name in text.split(",") if name.strip()]
    of_resources = {"cpu": BINPACK_CPU, "memory": BINPACK_MEMORY}
    of_resources |= {name: f"{BINPACK_RESOURCES}.{name}" for name in sorted(names) if name not in of_resources}
    known = (BINPACK_WEIGHT, BINPACK_RESOURCES, *of_resources.values())
    unlisted = [name for name in arguments if name.startswith(f"{BINPACK_RESOURCES}.") and name not in known]
    for name in unlisted:
        arguments[name].warn(f"is ignored: {BINPACK_RESOURCES} does not name this resource")
    _check_names({name: field for name, field in arguments.items() if name not in unlisted}, known)
    weights = {name: _weight(arguments, argument) for name, argument in of_resources.items()}
    return Binpack(
        weight=_weight(arguments, BINPACK_WEIGHT),
        resources=tuple((name, weight if weight >= 0 else 1) for name, weight in weights.items()),
    )


def _is_given(arguments: Arguments, name: str) -> bool:
    return name in arguments and not arguments[name].blank()


def _weight(arguments: Arguments, name: str) -> int:
    """Return a weight, 1 if absent."""
    return arguments[name].number(-_LARGEST_WEIGHT, _LARGEST_WEIGHT) if _is_given(arguments, name) else 1


def _check_names(arguments: Arguments, known: tuple[str, ...]) -> None:
    for name, field in arguments.items():
        holder = ConfField(field.source, None, field.path.removesuffix(f"[{name}]"))
        holder.is_known(name, known, "argument")
