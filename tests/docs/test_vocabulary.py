"""Code, tests, pages, examples and messages do not use the names that the glossary replaced."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GLOSSARY = ROOT / "docs" / "glossary.md"

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
MODULES = frozenset(["handover", "outlook", "outlooks", "pickers", "refusing", "shapes", "teller", "telling", "world"])
"""Modules that the glossary renamed, also after ``test_``."""
OTHER_MEANING = {
    # Structs that decode the part of a Kubernetes object that facts need, not the metrics service's former View.
    "libs/deviceshare/src/deviceshare/objects/views.py": frozenset(["View"]),
    **{
        f"libs/{path}.py": frozenset(["View"])
        for path in (
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


def relative(path: Path) -> str:
    """Return a path as it is in the repository."""
    return path.relative_to(ROOT).as_posix()


def is_checked(path: Path) -> bool:
    """Whether a source is ours, is not generated, and is not this list of old names."""
    folders = path.relative_to(ROOT).parts
    return path != Path(__file__) and not {"data", "build"} & set(folders)


SOURCES = sorted(
    path
    for top in (".ci", "lab", "libs", "services", "tests")
    for path in (ROOT / top).rglob("*.py")
    if is_checked(path)
)
PAGES = [
    path
    for top in ("docs", "deploy", "examples", "tests", ".ci", "*.md", "*.yaml")
    for start in sorted(ROOT.glob(top))
    for path in ([start] if start.is_file() else sorted(start.rglob("*")))
    if path.suffix in (".md", ".yaml", ".conf") and path != GLOSSARY
]


def tokens(path: Path) -> list[tokenize.TokenInfo]:
    """Return the tokens of a source."""
    return list(tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline))


def prose_of(path: Path) -> str:
    """Return the comments and strings of a source, with the parts of f-strings, or the whole of another file."""
    if path.suffix != ".py":
        return path.read_text(encoding="utf-8")
    code = (tokenize.NAME, tokenize.OP, tokenize.NUMBER)
    return "\n".join(token.string for token in tokens(path) if token.type not in code)


def is_replaced(name: str, path: Path) -> bool:
    """Whether an identifier of a file is one of the old names, or has one of the old words or phrases."""
    if name in OTHER_MEANING.get(relative(path), ()):
        return False
    words = name.lower().split("_")
    return name in NAMES or not WORDS.isdisjoint(words) or PROSE.search(" ".join(words)) is not None


def test_the_glossary_lists_the_names_that_changed() -> None:
    replaced = GLOSSARY.read_text(encoding="utf-8").partition("## Names that changed")[2]
    for name in ("Shape", "Outlook", "Picker", "PodAsk", "Happening", "Teller", "World"):
        assert re.search(rf"\b{name}\b", replaced), name


def test_modules() -> None:
    assert not [relative(path) for path in SOURCES if path.stem.removeprefix("test_") in MODULES]


def test_exceptions_are_needed() -> None:
    for path, names in OTHER_MEANING.items():
        assert names <= {token.string for token in tokens(ROOT / path)}, path


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_identifiers(path: Path) -> None:
    names = [token for token in tokens(path) if token.type == tokenize.NAME]
    assert not [f"{token.start[0]}: {token.string}" for token in names if is_replaced(token.string, path)]


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=relative)
def test_prose(path: Path) -> None:
    assert not [match.group() for match in PROSE.finditer(prose_of(path))]
