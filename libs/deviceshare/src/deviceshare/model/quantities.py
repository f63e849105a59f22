"""Kubernetes quantities (``4Gi``, ``500m``, ``320k``, ``1e3``, ``2.5``) as exact integers.

The API server canonicalizes quantities (``320000`` becomes ``320k``), so every suffix can occur for every resource.
Source: the grammar of ``resource.Quantity`` (kubernetes/apimachinery, pkg/api/resource/quantity.go).
"""

import re
from fractions import Fraction
from functools import lru_cache
from math import ceil

from deviceshare.model.problems import FormatError, InputError

Quantity = str | int | float
"""A quantity in JSON or YAML."""

LARGEST = 2**53
"""The largest accepted amount: exact as a float, and a thousand of them fit into 64 bits."""

_GRAMMAR = re.compile(r"([+-]?)([0-9]+\.?[0-9]*|\.[0-9]+)(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,3}))?")
_LARGEST_BINARY = Fraction(2**63 - 1)
"""The most that a quantity with a binary suffix is in Kubernetes."""
_TEXT_LENGTH = 64
_SCALES = {
    suffix: Fraction(10) ** power for suffix, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
}
_SCALES |= {f"{letter}i": Fraction(1024**power) for power, letter in enumerate("KMGTPE", start=1)}

_BINARY: tuple[str, ...] = ("Ei", "Pi", "Ti", "Gi", "Mi", "Ki", "")
_DECIMAL: tuple[str, ...] = ("E", "P", "T", "G", "M", "k", "", "m", "u")

_TEBIBYTE_IN_MIB = 2**20
_COUNT = "a whole number, 0 or more"
_BYTES = "an amount of bytes such as 512Mi or 4Gi, 0 or more"
_MILLI = "an amount of CPU such as 2 or 500m, not negative"


def is_native(resource: str) -> bool:
    """Return whether a resource is native to Kubernetes; all others are extended resources, in whole units."""
    return resource in ("cpu", "memory", "ephemeral-storage") or resource.startswith("hugepages-")


def parse_quantity(value: Quantity) -> Fraction:
    """Return the exact value of a quantity.

    Raises:
        ValueError: not a quantity.
    """
    text = _as_text(value)
    if len(text) > _TEXT_LENGTH:  # also a key of the cache
        raise ValueError(f"not a quantity: {text[:_TEXT_LENGTH]!r}")
    return _exact(text)


@lru_cache(maxsize=8192)
def _exact(text: str) -> Fraction:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        raise ValueError(f"not a quantity: {text!r}")
    sign, number, suffix, exponent = match.groups()
    amount = Fraction(number)
    if suffix:
        amount *= _SCALES[suffix]
        if suffix.endswith("i"):
            amount = min(amount, _LARGEST_BINARY)  # as ParseQuantity, which caps no others
    elif exponent:
        amount *= Fraction(10) ** int(exponent)
    return -amount if sign == "-" else amount


def format_quantity(amount: Fraction, *, binary: bool = False) -> str:
    """Return the canonical form of an amount: the largest suffix that leaves an integer, down to ``n``.

    ``binary``: use a binary suffix for integers of at least 1024. Source: CanonicalizeBytes of
    kubernetes/apimachinery, pkg/api/resource/quantity.go.
    """
    suffixes = _DECIMAL
    if not amount:
        suffixes = ("",)
    elif binary and amount.denominator == 1 and abs(amount) >= 1024:
        suffixes = _BINARY
    for suffix in suffixes:
        scaled = amount / _SCALES.get(suffix, 1)
        if scaled.denominator == 1:
            return f"{scaled.numerator}{suffix}"
    return f"{ceil(amount / _SCALES['n'])}n"


def to_amount(resource: str, value: Quantity, subject: str, field: str, error: type[InputError] = FormatError) -> int:
    """Return an amount in the unit of facts: millicores (``cpu``), bytes (other native resources), count.

    Rounds fractions of a millicore or byte up, as Kubernetes does.

    Args:
        resource: the resource name.
        value: the quantity.
        subject: the object, for the message (``Pod default/a``).
        field: the path of the quantity in the object.
        error: the class to raise: RequestError for requests of pods, FormatError for values of nodes and plugins.

    Raises:
        InputError: of the given class: not a quantity, negative, above ``LARGEST``, or a fractional count.
    """
    text = _as_text(value)
    try:
        if len(text) > _TEXT_LENGTH:  # also a key of the cache
            raise ValueError(text)
        return _amount(resource, text)
    except ValueError:
        expected = _MILLI if resource == "cpu" else _BYTES if is_native(resource) else _COUNT
        if len(text) > len(str(LARGEST)) - 1:
            expected += f", at most {LARGEST}"
        raise error(subject, field, text, expected) from None


def mebibytes_hint(resource: str, amount: int) -> str:
    """Return the hint that an amount of device memory was probably meant in bytes, '' if it was not.

    Device memory (``volcano.sh/vgpu-memory``, ``huawei.com/Ascend910B3-memory``) is a plain number of MiB, without a
    suffix: Kubernetes reads ``2Gi`` as 2147483648. A card of a TiB is taken for bytes.
    """
    if is_native(resource) or not resource.endswith("-memory") or amount < _TEBIBYTE_IN_MIB:
        return ""
    return f"{resource} is a number of MiB: {amount} was probably meant in bytes (did you mean '{-(-amount >> 20)}'?)"


def _as_text(value: Quantity) -> str:
    return value if isinstance(value, str) else repr(value)


@lru_cache(maxsize=8192)
def _amount(resource: str, text: str) -> int:
    """Return the amount in its unit, or raise ValueError. Cached: many pods share few distinct quantities."""
    if len(text) < 16 and text.isascii() and text.isdecimal():
        amount = int(text) * 1000 if resource == "cpu" else int(text)
    else:
        exact = parse_quantity(text) * (1000 if resource == "cpu" else 1)
        if exact.denominator != 1 and not is_native(resource):
            raise ValueError(text)
        amount = -1 if exact < 0 else ceil(exact)
    if not 0 <= amount <= LARGEST:
        raise ValueError(text)
    return amount
