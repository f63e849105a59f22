"""The optional CEL library: loaded with the first expression; where it is missing or broken, claims are refused."""

import subprocess
import sys
from typing import Any

import pytest
from deviceshare.families.dra import cel
from deviceshare.families.dra.cel import evaluator
from deviceshare.families.dra.errors import AllocationError
from support.builders import node
from support.devices import NOW, claim, gpu_class, gpus, scheduler_with, using

PROGRAM = """
import sys
from deviceshare.allocation import Allocator
from deviceshare.conf import default_conf
Allocator(default_conf())
assert "cel_expr_python" not in sys.modules
"""


def test_without_claims_the_library_is_not_loaded() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)


@pytest.mark.parametrize("error", [ImportError("none"), OSError("symbol not found"), TypeError("descriptors")])
def test_claims_are_refused_by_name_where_it_cannot_be_loaded(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(name: str) -> Any:
        raise error

    monkeypatch.setattr(cel, "import_module", broken)
    with pytest.raises(AllocationError, match=type(error).__name__):
        evaluator().compile("true")
    scheduler = scheduler_with(node("a"), gpu_class(), gpus("a", 1), claim("one"), using("p", "one"))
    assert not scheduler.round(NOW).placed
    assert "need the optional package deviceshare[dra]" in scheduler.explain("uid-p", NOW).message


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        ("1.2.3-rc.1+b", True),
        ("1.2.1\u0663", False),
        ("1.2.3-\u0663", False),
        ("18446744073709551615.0.0-18446744073709551615", True),
        ("18446744073709551616.0.0", False),
        ("1.0.0-18446744073709551616", False),
        (f"1.0.{'1' * 5000}", False),
    ],
)
def test_versions_have_ascii_digits_and_numbers_of_64_bits(text: str, valid: bool) -> None:
    # Source: Parse of github.com/blang/semver, with which Kubernetes reads versions.
    library = evaluator()
    assert library.evaluate(library.compile(f"isSemver('{text}')"), {}) is valid
    found = library.evaluate(library.compile(f"semver('{text}') == semver('{text}')"), {})
    assert (found is True) is valid
