#!/usr/bin/env python3
"""Check that code, tests, pages, examples and messages do not use the names that the glossary replaced.

Prints a line for each use, as ``FILE:LINE: NAME``. The status is 1 if there is any.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
GLOSSARY = "docs/glossary.md"
LISTS = frozenset([GLOSSARY, ".ci/check_words.py", "tests/docs/test_words.py"])
"""Files that have to name what was replaced."""
TOPS = (".ci", "deploy", "docs", "examples", "lab", "libs", "services", "tests", "*.md", "*.yaml", "*.py")
PAGES = (".md", ".yaml", ".conf")
NOT_OURS = frozenset(["data", "build"])
"""Directories with recorded or generated files."""

NAMES = frozenset(
    [
        *("Shape", "Shapes", "Outlook", "Outlooks", "outlook", "outlooks", "Standing", "Question"),
        *("Picker", "Pickers", "picker", "pickers", "pickers_of", "picker_of", "likeness"),
        *("meet", "met", "fine", "Stretch", "liked", "disliked", "heavy", "packs", "hopeless"),
        *("PodAsk", "ContainerAsk", "pod_ask", "Line", "Book", "Flights", "World", "Work", "Works"),
        *("Way", "HandOvers", "ways", "Happening", "happening", "View", "Picture", "draw_picture"),
        *("telling", "Teller", "put_aside", "refusing", "within_ask", "EVERYWHERE", "FRESH", "giving_way"),
        *("StepTold", "TellPending", "TellScheduled", "TellStatus"),
    ]
)
"""Identifiers that the glossary replaced. Hypothesis' ``draw`` and variables called ``line`` are something else."""
WORDS = frozenset(["nobodys", "tell", "tells", "told"])
"""Words that no identifier has between its underscores, beside those of PROSE."""
PREFIXES = ("MOST_", "LEAST_")
"""Beginnings of constants: a bound begins with MAX_ or MIN_."""
MODULES = frozenset(["handover", "outlook", "outlooks", "pickers", "refusing", "shapes", "teller", "telling", "world"])
"""Modules that the glossary renamed, also after ``test_``."""
OTHER_MEANING = {
    # Structs that decode the part of a Kubernetes object that facts need, not the metrics service's former View.
    "libs/deviceshare/src/deviceshare/objects/views.py": frozenset(["View"]),
    **{
        f"libs/{path}.py": frozenset(["View"])
        for path in (
            "deviceshare/src/deviceshare/objects/pod_views",
            "deviceshare/src/deviceshare/objects/storage_views",
            "deviceshare/src/deviceshare/objects/bounds",
            "deviceshare-cluster/src/deviceshare_cluster/readable",
        )
    },
}
"""Names of NAMES that mean something else in one file."""
PROSE = re.compile(
    r"\b(put(s|ting)? aside|outlooks?|pickers?|likeness|teller|tells? (apart|of|why)|(is|was|are|were|be|been) told"
    r"|nobody|somebody|whoever|what(ever)? (has )?bec[ao]mes? of|hand-?overs?)\b",
    re.IGNORECASE,
)
"""Phrases of the private vocabulary."""


_CODE = frozenset([tokenize.NAME, tokenize.OP, tokenize.NUMBER])


def files(root: Path) -> Iterator[str]:
    """Yield the checked files, relative to the repository: our sources and pages, without the lists of old names."""
    for top in TOPS:
        for start in sorted(root.glob(top)):
            for path in [start] if start.is_file() else sorted(start.rglob("*")):
                name = path.relative_to(root).as_posix()
                ours = path.suffix in (".py", *PAGES) and NOT_OURS.isdisjoint(path.relative_to(root).parts)
                if ours and name not in LISTS:
                    yield name


def is_replaced(name: str, file: str) -> bool:
    """Whether an identifier of a file is one of the old names, or has one of the old words or phrases."""
    if name in OTHER_MEANING.get(file, ()):
        return False
    words = name.lower().split("_")
    if name.lstrip("_").startswith(PREFIXES):
        return True
    return name in NAMES or not WORDS.isdisjoint(words) or PROSE.search(" ".join(words)) is not None


def uses(file: str, text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each use in a file: in names, comments and strings of a source, else anywhere."""
    path = Path(file)
    if path.suffix != ".py":
        for number, line in enumerate(text.splitlines(), 1):
            yield from ((number, match.group()) for match in PROSE.finditer(line))
        return
    if path.stem.removeprefix("test_") in MODULES:
        yield 1, path.stem
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            if is_replaced(token.string, file):
                yield token.start[0], token.string
        elif token.type not in _CODE:
            yield from ((token.start[0], match.group()) for match in PROSE.finditer(token.string))


def main() -> int:
    """Print all uses. Returns the status of the process."""
    found = [
        f"{file}:{line}: {word}"
        for file in files(ROOT)
        for line, word in uses(file, (ROOT / file).read_text(encoding="utf-8"))
    ]
    if found:
        print(
            "\n".join(found), f"{len(found)} replaced names; {GLOSSARY} has the present ones", sep="\n", file=sys.stderr
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
