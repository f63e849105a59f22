"""The hierarchy of queues by ``spec.parent``.

Source: Volcano pkg/scheduler/plugins/capacity (updateAncestors). In Volcano a missing parent, a cycle, or a job in a
queue with children stops all scheduling; here it stops only the affected queues.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from deviceshare.model import Problem, QueueFact

ROOT = "root"
"""The root of the hierarchy. Its object need not exist."""


class Links(NamedTuple):
    """``above``: the ancestors of each queue, from its parent to the root.

    ``child``: the first child, by name, of each parent queue. ``problems``: for each queue without a path to the root,
    the error of the queue or of one of its ancestors.
    """

    above: dict[str, tuple[str, ...]]
    child: dict[str, str]
    problems: dict[str, Problem]

    def obstacle(self, name: str) -> str:
        """Return why a queue serves no pods because of its position in the hierarchy, or ''."""
        if name in self.problems:
            return str(self.problems[name])
        child = self.child.get(name)
        return "" if child is None else f"queue {name!r} is the parent of {child!r}: only queues without children serve"


NO_LINKS = Links({}, {}, {})


def find_links(queues: Iterable[QueueFact], existing: Collection[str]) -> Links:
    """Return the hierarchy. Queues without ``spec.parent`` are children of the root; a parent must exist."""
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
