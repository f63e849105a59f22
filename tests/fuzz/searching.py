"""The search for an input that breaks a parser: rounds of examples, each repeatable by its seed."""

import os
import random
import resource
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from fuzz.targets import Target, attempt
from hypothesis import HealthCheck, Phase, Verbosity, given, settings
from hypothesis import seed as seeded
from hypothesis.errors import HypothesisWarning

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
"""For all searches together; 0: only as many inputs as every test run has time for."""
EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "60"))
"""Inputs for each search where no time is given."""
SEED = int(os.environ.get("FUZZ_SEED") or (random.randrange(10**6) if SECONDS else 0))

_FIRST, _MOST = 50, 2000
"""Examples of the first round, and of any."""
_MEMORY = 8 << 30
"""Bytes of address space that the process may have during a search."""


@contextmanager
def _bounded_memory() -> Iterator[None]:
    """Let an input that takes too much memory raise MemoryError: the kernel would end the process without its seed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def search(name: str, target: Target, *, examples: int, seed: int) -> None:
    """Try so many inputs; raises what the smallest find raised, with a note that says how to repeat it."""

    @seeded(seed)
    @settings(
        max_examples=examples,
        database=None,
        deadline=None,
        verbosity=Verbosity.normal,
        suppress_health_check=list(HealthCheck),
        phases=(Phase.generate, Phase.shrink),
        print_blob=False,
    )
    @given(target.inputs)
    def attempts(given: Any) -> None:
        attempt(target, given)

    try:
        with warnings.catch_warnings(), _bounded_memory():
            warnings.simplefilter("ignore", HypothesisWarning)  # that what was found is long to show
            attempts()
    except BaseException as error:
        error.add_note(
            f"To repeat it: FUZZ_SEED={seed} FUZZ_EXAMPLES={examples} .venv/bin/pytest tests/fuzz -k '{name}'"
        )
        raise


def search_for(name: str, target: Target, *, seconds: float, seed: int) -> int:
    """Search for a time, round after round with the seeds that follow; returns how many inputs were tried."""
    begin = time.monotonic()
    tried, examples = 0, _FIRST
    while True:
        search(name, target, examples=examples, seed=seed)
        tried, seed = tried + examples, seed + 1
        gone = time.monotonic() - begin
        if gone >= seconds:
            return tried
        examples = max(_FIRST, min(_MOST, int((seconds - gone) * tried / gone)))
