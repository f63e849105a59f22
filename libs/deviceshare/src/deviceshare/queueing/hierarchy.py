"""Which queues are below which, by ``spec.parent``. Pure.

Source: Volcano pkg/scheduler/plugins/capacity (updateAncestors). There one queue whose parent does not exist, a cycle,
or a job in a queue with children stops all scheduling; here it stops only the queues concerned.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from deviceshare.model import Problem, QueueFact

ROOT = "root"
"""The queue above all others. It need not be there as an object."""


class Links(NamedTuple):
    """``above``: for each queue the names of those above it, its parent first, the root last.

    ``child``: for each queue that has others below it the first of them by name. ``problems``: for each queue that has
    no path to the root the error, which may be that of a queue above it.
    """

    above: dict[str, tuple[str, ...]]
    child: dict[str, str]
    problems: dict[str, Problem]

    def obstacle(self, name: str) -> str:
        """Return why a queue serves no pod because of its place in the hierarchy, '' where it may serve."""
        if name in self.problems:
            return str(self.problems[name])
        child = self.child.get(name)
        return "" if child is None else f"queue {name!r} is the parent of {child!r}: only queues without children serve"


NO_LINKS = Links({}, {}, {})


def find_links(queues: Iterable[QueueFact], existing: Collection[str]) -> Links:
    """Return how queues are linked: those without a parent are below the root. A parent has to be an existing queue."""
    parents = {queue.name: queue.parent or ROOT for queue in queues}
    above: dict[str, tuple[str, ...]] = {ROOT: ()}
    problems: dict[str, Problem] = {}
    for name in parents:
        path: dict[str, None] = {}
        while name not in above and name not in problems:
            if name in path:
                names = list(path)
                for each in names[names.index(name) :]:
                    problems[each] = _problem(each, parents[each], "a queue that is not below this one")
            elif parents[name] not in existing and parents[name] != ROOT:
                problems[name] = _problem(name, parents[name], "the name of a queue that exists")
            else:
                path[name] = None
                name = parents[name]
        for each in reversed(path):
            if name in problems:
                problems.setdefault(each, problems[name])
            else:
                above[each] = (parents[each], *above[parents[each]])
    child = {above[name][0]: name for name in sorted(above, reverse=True) if above[name]}
    return Links(above, child, problems)


def _problem(name: str, parent: str, expected: str) -> Problem:
    return Problem(f"Queue {name}", "spec.parent", parent, expected)
