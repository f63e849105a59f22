"""The pods that go anyway and whose room a group needs: it does not wait for the others."""

from collections.abc import Callable, Sequence

from deviceshare.queueing import Decision

MAX_LEAVING = 20
"""Pods, or pods together, of which it is looked whether a group needs their room, after all of them."""


def fewest_going(
    decision: Decision,
    going: Sequence[str],
    together: Sequence[Sequence[str]],
    tried: Callable[[Sequence[str]], Decision | None],
) -> tuple[Decision, tuple[str, ...]]:
    """Return a decision whose group waits only for pods whose room it needs, and these pods.

    Args:
        decision: the decision if it waits for all of them.
        going: the uids of the pods.
        together: those that need not be waited for, with the others that are not waited for then either.
        tried: decides about the group if only these pods have gone; None if it does not fit then.
    """
    needed = tuple(going)
    for dropped in ([uid for uids in together for uid in uids], *together[:MAX_LEAVING]):
        gone = frozenset(dropped)
        rest = tuple(uid for uid in needed if uid not in gone)
        if rest == needed:
            continue
        found = tried(rest)
        if found is not None:
            decision, needed = found, rest
    return decision, needed
