"""Bugs to seed into the search for victims: each replaces a function of it."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from deviceshare.allocation import removals
from deviceshare.preemption import preempting, search
from deviceshare.preemption.budgets import Budgets
from deviceshare.preemption.candidate_nodes import CandidateNodes
from deviceshare.preemption.candidate_table import CandidateTable
from deviceshare.preemption.gangs import Gang
from deviceshare.preemption.room import Room
from deviceshare.preemption.victims import Cost, Victims


class Bug(NamedTuple):
    """A bug: where, the name of what it replaces, and what it makes of the right one."""

    of: Any
    name: str
    wrong: Callable[[Any], Any]


def _reversed_cost(right: Any) -> Any:
    return property(lambda cost: (cost.priorities << 60) + cost.pods)


BUGS: Mapping[str, Bug] = {
    "a gang loses its minimum": Bug(Gang, "_keeps_minimum", lambda right: lambda gang, gone: True),
    "a gang never goes whole": Bug(
        Gang, "with_all_that_go", lambda right: lambda gang, gone: gone if gang._keeps_minimum(gone) else None
    ),
    "one pod more than a budget allows": Bug(
        Budgets, "allow", lambda right: lambda budgets, uids: right(budgets, list(uids)[1:])
    ),
    "the sum counts before the number": Bug(Cost, "weight", _reversed_cost),
    "victims are not compared by priority": Bug(
        Victims, "cost", lambda right: lambda victims, uids: right(victims, uids)._replace(priorities=0)
    ),
    "the first victims are good enough": Bug(search.Search, "_cheapest", lambda right: lambda search: None),
    "a node is passed over that needs one pod": Bug(
        CandidateNodes, "up_to", lambda right: lambda places, size, cost: right(places, size - 1, cost)
    ),
    "the bound counts a pod too many": Bug(
        removals, "fewest", lambda right: lambda *args: right(*args) + (right(*args) > 0)
    ),
    "the free room of a node counts twice": Bug(
        Room, "gain", lambda right: lambda room, node, gone: right(room, node, gone) + (len(gone) > 1)
    ),
    "queues lose what they deserve": Bug(preempting, "above_deserved", lambda right: lambda *args: lambda pods: True),
    "pods of the own queue are taken back": Bug(
        CandidateTable,
        "able",
        lambda right: lambda table, preemptor, **how: right(table, preemptor, **{**how, "preempts": True}),
    ),
}
