"""Random clusters find bugs that are seeded into the search for victims."""

import pytest
from deviceshare_lab.studies.victims.comparison import compare
from deviceshare_lab.studies.victims.random_cluster import KINDS
from support.preemption_bugs import BUGS

SEEDS = 60


def is_found() -> bool:
    """Return whether some random cluster gets another answer than the exact search gives."""
    for seed in range(SEEDS):
        for kind in KINDS:
            found = compare(seed, kind)
            if found.wrong or found.ours != found.best:
                return True
    return False


@pytest.mark.timeout(3600)
def test_without_a_bug_none_is_found() -> None:
    assert not is_found()


@pytest.mark.parametrize("name", BUGS)
def test_a_seeded_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bug = BUGS[name]
    monkeypatch.setattr(bug.of, bug.name, bug.wrong(vars(bug.of)[bug.name]))
    assert is_found()
