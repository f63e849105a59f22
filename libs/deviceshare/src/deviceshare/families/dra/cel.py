"""The CEL of Kubernetes' device selectors, on the optional library ``cel-expr-python``.

Quantities and versions are small maps, on which their functions are declared. Source of the functions: quantity.go and
semverlib.go of k8s.io/apiserver/pkg/cel/library, cel/compile.go of k8s.io/dynamic-resource-allocation.
"""

import re
from fractions import Fraction
from importlib import import_module
from typing import Any

from deviceshare.families.dra.errors import AllocationError
from deviceshare.families.dra.selectors import UNAVAILABLE, Evaluator, Outcome, version
from deviceshare.model import InputError, parse_quantity

MAX_LENGTH = 10 * 1024
"""Characters of an expression, as in the API server."""

_LACKING = re.compile(
    r"\.(?:indexOf|lastIndexOf|isSorted|min|max|sum|find|findAll|reverse)\s*\(|\b(?:ip|cidr|url|isIP|isCIDR|isURL|format)\b"
)
_LITERAL = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_UNKNOWN = re.compile(r"\bdevice\b(?!\s*\.\s*\??\s*(?:driver|attributes|capacity|allowMultipleAllocations)\b).{0,40}")
_WALKS_DOMAINS = re.compile(
    r"\bin\s+device\.(?:attributes|capacity)\b(?!\s*[.\[])"
    r"|\bdevice\.(?:attributes|capacity)\s*\.\s*(?:exists|exists_one|all|map|filter|size|transform\w+)\s*\("
    r"|\bsize\s*\(\s*device\.(?:attributes|capacity)\s*\)"
)
_EXTENSIONS = ("bindings", "strings", "optional", "lists", "sets", "two-var-comprehensions")
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(?:\.(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*))?"
    r"(?:\+([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?",
    re.ASCII,
)
_DIGITS = len(str(2**64))
_LARGEST = 2**63 - 1

Small = dict[str, str]


def evaluator() -> Evaluator:
    """Return an evaluator, which loads the optional library with the first expression."""
    return _Lazy()


class _Lazy:
    def __init__(self) -> None:
        self._loaded: Evaluator | None = None
        self._problem = ""

    def compile(self, expression: str) -> Any:
        """Return a compiled expression; raises :class:`AllocationError`."""
        return self._load().compile(expression)

    def evaluate(self, compiled: Any, device: dict[str, Any]) -> Outcome:
        """Return whether a device matches, or why this is not known."""
        return self._load().evaluate(compiled, device)

    def _load(self) -> Evaluator:
        if self._loaded is None and not self._problem:
            try:
                self._loaded = _Cel(import_module("cel_expr_python.cel"))
            except Exception as error:  # a library that does not fit, or a broken one, raises anything
                self._problem = f"{UNAVAILABLE}: {type(error).__name__}: {error}"
        if self._loaded is None:
            raise AllocationError("cel-unavailable", self._problem)
        return self._loaded


class _Cel:
    def __init__(self, cel: Any) -> None:
        types = cel.Type
        self._bool = types.BOOL
        self._dyn = types.DYN
        config = cel.NewEnvConfigFromYaml("name: dra\nextensions:\n" + "".join(f"- name: {x}\n" for x in _EXTENSIONS))
        text, of_map, whole = types.STRING, types.MAP, types.INT
        scalars = (whole, text, types.BOOL, of_map)

        def function(name: str, result: Any, parameters: list[Any], impl: Any, *, member: bool = True) -> Any:
            return name, cel.Overload(
                f"dra_{name}_{'_'.join(p.name().lower() for p in parameters)}",
                return_type=result,
                parameters=parameters,
                is_member=member,
                impl=impl,
            )

        overloads = [
            function("quantity", of_map, [text], _quantity, member=False),
            function("isQuantity", types.BOOL, [text], _is_quantity, member=False),
            function("semver", of_map, [text], _semver, member=False),
            function("semver", of_map, [text, types.BOOL], _normalized, member=False),
            function("isSemver", types.BOOL, [text], _is_semver, member=False),
            function("isSemver", types.BOOL, [text, types.BOOL], _is_normalizable, member=False),
            function("compareTo", whole, [of_map, of_map], _compare),
            function("isGreaterThan", types.BOOL, [of_map, of_map], lambda a, b: _compare(a, b) > 0),
            function("isLessThan", types.BOOL, [of_map, of_map], lambda a, b: _compare(a, b) < 0),
            function("sign", whole, [of_map], _sign, member=False),
            *(function("includes", types.BOOL, [a, b], _includes) for a in (*scalars, types.LIST) for b in scalars),
            function("isInteger", types.BOOL, [of_map], _is_integer),
            function("asInteger", whole, [of_map], _as_integer),
            function("asApproximateFloat", types.DOUBLE, [of_map], lambda a: float(_amount(a))),
            function("add", of_map, [of_map, of_map], lambda a, b: _of(_amount(a) + _amount(b))),
            function("add", of_map, [of_map, whole], lambda a, b: _of(_amount(a) + b)),
            function("sub", of_map, [of_map, of_map], lambda a, b: _of(_amount(a) - _amount(b))),
            function("sub", of_map, [of_map, whole], lambda a, b: _of(_amount(a) - b)),
            function("major", whole, [of_map], lambda a: _release(a)[0]),
            function("minor", whole, [of_map], lambda a: _release(a)[1]),
            function("patch", whole, [of_map], lambda a: _release(a)[2]),
        ]
        by_name: dict[str, list[Any]] = {}
        for name, overload in overloads:
            by_name.setdefault(name, []).append(overload)
        functions = [cel.FunctionDecl(name, of_name) for name, of_name in by_name.items()]
        variables = {"device": types.Map(types.STRING, types.DYN)}
        self._env = cel.NewEnv(config=config, variables=variables, functions=functions)

    def compile(self, expression: str) -> Any:
        """Return a compiled expression; raises :class:`AllocationError`."""
        if len(expression) > MAX_LENGTH:
            raise AllocationError(
                "cel-compile", f"an expression has {len(expression)} characters, at most {MAX_LENGTH}"
            )
        if unknown := _UNKNOWN.search(_LITERAL.sub('""', expression)):
            raise AllocationError("cel-compile", f"compilation failed: undefined field {unknown[0]!r}")
        if ".reverse(" in expression:
            raise AllocationError("cel-unsupported", "the function reverse is not supported")
        try:
            compiled = self._env.compile(expression)
        except RuntimeError as error:
            kind = "cel-unsupported" if _LACKING.search(expression) else "cel-compile"
            raise AllocationError(kind, f"compilation failed: {error}") from None
        if _WALKS_DOMAINS.search(expression):
            raise AllocationError("cel-unsupported", "expressions over the domains of a device are not supported")
        if compiled.return_type() not in (self._bool, self._dyn):
            raise AllocationError("cel-compile", "must evaluate to bool or the unknown type")
        return compiled

    def evaluate(self, compiled: Any, device: dict[str, Any]) -> Outcome:
        """Return whether a device matches, or why this is not known."""
        try:
            value = compiled.eval(data={"device": device})
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            return "cel-runtime", str(error)
        if value.type() == self._bool:
            return bool(value.value())
        return "cel-runtime", str(value.value()) if value.type().name() == "ERROR" else "the result is not a bool"


def _quantity(text: str) -> Small:
    try:
        return _of(parse_quantity(text))
    except (InputError, ValueError) as error:
        raise ValueError(f"invalid quantity {text!r}") from error


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except (InputError, ValueError):
        return False
    return True


def _of(amount: Fraction) -> Small:
    return {"quantity": str(amount)}


def _amount(value: Small) -> Fraction:
    if "quantity" not in value:
        raise ValueError("no such overload: expected a quantity")
    return Fraction(value["quantity"])


def _sign(value: Small) -> int:
    amount = _amount(value)
    return (amount > 0) - (amount < 0)


def _is_integer(value: Small) -> bool:
    amount = _amount(value)
    return amount.denominator == 1 and abs(amount) <= _LARGEST


def _as_integer(value: Small) -> int:
    if not _is_integer(value):
        raise ValueError("cannot convert value to integer")
    return int(_amount(value))


def _semver(text: str) -> Small:
    if not _is_semver(text):
        raise ValueError(f"invalid version {text!r}")
    return version(text)


def _includes(target: Any, value: Any) -> bool:
    """Return whether a value is in a list, or equal to what is none; true is no number."""
    values = target if isinstance(target, list) else [target]
    return any(each == value and isinstance(each, bool) == isinstance(value, bool) for each in values)


def _normalized(text: str, normalize: bool) -> Small:
    """Return a version; ``normalize`` removes a leading v and zeros, and adds minor and patch numbers."""
    if normalize:
        text = text.removeprefix("v")
        match = re.match(r"[\d.]*", text)
        release = match[0] if match else ""
        parts = [part.lstrip("0") or "0" for part in release.split(".")]
        if len(parts) > 3:
            raise ValueError(f"invalid version {text!r}")
        text = ".".join([*parts, "0", "0"][:3]) + text[len(release) :]
    return _semver(text)


def _is_semver(text: str) -> bool:
    """Return whether a text is a version as of blang/semver, whose numbers have 64 bits."""
    match = _SEMVER.fullmatch(text)
    if match is None:
        return False
    numbers = (*match.groups()[:3], *filter(str.isdigit, (match[4] or "").split(".")))
    return all(len(each) <= _DIGITS and int(each) < 2**64 for each in numbers)


def _is_normalizable(text: str, normalize: bool) -> bool:
    try:
        _normalized(text, normalize)
    except ValueError:
        return False
    return True


def _release(value: Small) -> tuple[int, int, int]:
    match = _SEMVER.fullmatch(value.get("version", ""))
    if match is None:
        raise ValueError("no such overload: expected a version")
    return int(match[1]), int(match[2]), int(match[3])


def _version_key(value: Small) -> tuple[Any, ...]:
    release = _release(value)
    match = _SEMVER.fullmatch(value["version"])
    pre = match[4] if match else None
    if not pre:
        return release, 1, ()
    return release, 0, tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in pre.split("."))


def _compare(one: Small, other: Small) -> int:
    a: Any
    b: Any
    if "version" in one and "version" in other:
        a, b = _version_key(one), _version_key(other)
    else:
        a, b = _amount(one), _amount(other)
    return int(a > b) - int(a < b)
