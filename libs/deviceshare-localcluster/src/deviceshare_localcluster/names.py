"""Names that controllers and the API server derive: random letters, hashes of templates, ``generateName``.

Kubernetes draws letters at random and hashes Go's memory; here both are digests, so that equal manifests give equal
names in every run. Their alphabet and form are those of Kubernetes (apimachinery, pkg/util/rand; pkg/util/hash).
"""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_LETTERS = 5
_LONGEST_PREFIX = 63 - _LETTERS
"""Longer prefixes of generated names are cut (apiserver, pkg/storage/names)."""


def letters(*seed: object) -> str:
    """Return five letters that depend on the seed."""
    digest = hashlib.sha256("\0".join(map(str, seed)).encode()).digest()
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest[:_LETTERS])


def template_hash(template: Mapping[str, Any]) -> str:
    """Return the hash of a pod template, as in the label ``pod-template-hash``."""
    encoded = msgspec.json.encode(template, order="deterministic")
    number = int.from_bytes(hashlib.sha256(encoded).digest()[:4], "big")
    return "".join(_ALPHABET[ord(digit) % len(_ALPHABET)] for digit in str(number))


def generated_name(prefix: str, *seed: object) -> str:
    """Return the name that the API server gives to an object with this ``generateName``."""
    return f"{prefix[:_LONGEST_PREFIX]}{letters(prefix, *seed)}"


def numbered_names(prefix: str, *seed: object) -> Iterator[str]:
    """Yield names with random letters without end, all different."""
    number, seen = 0, set()
    while True:
        name = generated_name(prefix, *seed, number)
        number += 1
        if name not in seen:
            seen.add(name)
            yield name
