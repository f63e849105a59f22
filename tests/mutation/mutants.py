"""The mutants of a module, by the operators of cosmic-ray, and a seeded sample of them."""

import ast
import hashlib
import random
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import parso.python.tree
from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.operators.operator import Operator
from cosmic_ray.plugins import get_operator, operator_names
from parso.tree import NodeOrLeaf

# The first two need arguments. Identity and equality mean the same for what the code compares by them.
_UNUSED = re.compile(r"Variable(Inserter|Replacer)$|_(Eq_Is|Is_Eq|NotEq_IsNot|IsNot_NotEq)$")
_WITHOUT_CHANGES = frozenset({"name", "newline", "string", "fstring_string", "endmarker"})
_PUNCTUATION = ("(", ")", "[", "]", "{", "}", ",", ":", ".", "=")
_LOGGING = re.compile(r"(_?log(ger)?|logging)\.")


class RemoveCall(Operator):
    """Replace a statement that only calls something by ``pass``: a forgotten step."""

    def mutation_positions(self, node: NodeOrLeaf) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
        """Return the position of a statement that is a call, except one that only logs."""
        if node.type != "atom_expr" or node.parent.type != "simple_stmt":
            return
        last = node.children[-1]
        called = last.type == "trailer" and last.children[0] == "("
        if called and not _LOGGING.match(node.get_code(include_prefix=False)):
            yield node.start_pos, node.end_pos

    def mutate(self, node: NodeOrLeaf, index: int) -> NodeOrLeaf:
        """Return ``pass`` in the place of the statement."""
        return parso.python.tree.Keyword("pass", node.start_pos, prefix=node.get_first_leaf().prefix)

    @classmethod
    def examples(cls) -> tuple[()]:
        """Return nothing: a test shows them."""
        return ()


def operators() -> list[tuple[str, Operator]]:
    """Return the operators by name, sorted."""
    names = sorted(name for name in operator_names() if not _UNUSED.search(name))
    return [(name.partition("/")[2], get_operator(name)()) for name in names] + [("RemoveCall", RemoveCall())]


@dataclass(frozen=True)
class Mutant:
    """One change of one module."""

    group: str
    path: Path
    """Relative to the repository."""
    line: int
    operator: str
    code: str
    """The whole module with the change."""

    @property
    def digest(self) -> str:
        """Return what identifies the mutant as long as its module stays as it is."""
        return hashlib.sha256(f"{self.path}\n{self.code}".encode()).hexdigest()


def sample(root: Path, group: str, modules: Sequence[Path], count: int, seed: int) -> list[Mutant]:
    """Return at most ``count`` mutants of ``modules``: each of another place, of which all are equally likely.

    The same modules, count and seed give the same mutants. A place (an operator, a number, a condition, a statement)
    counts once, however many changes cosmic-ray knows for it: one of them is drawn.
    """
    places = [(path, place) for path in modules for place in _places(path.read_text())]
    drawn = random.Random(f"{group} {seed}")
    drawn.shuffle(places)
    chosen: list[Mutant] = []
    for path, changes in places:
        if len(chosen) == count:
            break
        line, name, operator, occurrence = drawn.choice(changes)
        code = _mutate(path.read_text(), operator, occurrence)
        if code is not None and _differs(path.read_text(), code):
            chosen.append(Mutant(group, path.relative_to(root), line, name, code))
    return chosen


_Change = tuple[int, str, Operator, int]


def _places(source: str) -> list[list[_Change]]:
    places: dict[tuple[tuple[int, int], tuple[int, int]], list[_Change]] = defaultdict(list)
    counts: dict[str, int] = defaultdict(int)
    known = operators()
    for node in ast_nodes(get_ast(source)):
        if node.type in _WITHOUT_CHANGES or node in _PUNCTUATION:
            continue
        annotation = _is_annotation(node)
        for name, operator in known:
            for start, end in operator.mutation_positions(node):
                if not annotation:
                    places[start, end].append((start[0], name, operator, counts[name]))
                counts[name] += 1
    return [places[place] for place in sorted(places)]


def _mutate(source: str, operator: Operator, occurrence: int) -> str | None:
    try:
        return mutate_code(source, operator, occurrence)
    except AttributeError:  # ExceptionReplacer of cosmic-ray 8 cannot replace a dotted name
        return None


def _is_annotation(node: NodeOrLeaf) -> bool:
    """Say whether a node is part of a type, which does nothing at run time."""
    while node.parent is not None:
        parent = node.parent
        if parent.type == "annassign" and node is parent.children[1]:
            return True
        if parent.type == "tfpdef" or (parent.type == "funcdef" and node is parent.annotation):
            return True
        node = parent
    return False


def _differs(source: str, code: str) -> bool:
    try:
        return ast.dump(ast.parse(source)) != ast.dump(ast.parse(code))
    except SyntaxError:
        return False
