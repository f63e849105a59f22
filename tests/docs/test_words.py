"""The check of words (``make lint``) finds each kind of use of a name that the glossary replaced."""

import re
import sys
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / ".ci"))
import check_words  # noqa: E402


@pytest.mark.parametrize(
    ("file", "text", "use"),
    [
        ("libs/a.py", "class Outlook:\n    pass\n", (1, "Outlook")),
        ("libs/a.py", "x = 1\npod_ask = 2\n", (2, "pod_ask")),
        ("libs/a.py", "def what_became_of_it() -> None: ...\n", (1, "what_became_of_it")),
        ("libs/a.py", "def tell_it() -> None: ...\n", (1, "tell_it")),
        ("libs/a.py", "_MOST_PODS = 1\n", (1, "_MOST_PODS")),
        ("libs/a.py", "# it is put aside\n", (1, "put aside")),
        ("libs/a.py", 'x = f"for {y} nobody waits"\n', (1, "nobody")),
        ("libs/test_teller.py", "", (1, "test_teller")),
        ("docs/a.md", "One\nA hand-over of pods.\n", (2, "hand-over")),
    ],
)
def test_a_use_is_found(file: str, text: str, use: tuple[int, str]) -> None:
    assert use in list(check_words.uses(file, text))


def test_other_words_are_no_uses() -> None:
    text = 'line = "the line is drawn"\nview = View(line)\n'
    assert list(check_words.uses("libs/deviceshare/src/deviceshare/objects/views.py", text)) == []


def test_sources_pages_and_examples_are_checked() -> None:
    checked = set(check_words.files(ROOT))
    assert checked >= {"README.md", "compose.yaml", "conftest.py"}
    for top in (".ci", "deploy", "docs", "examples", "lab", "libs", "services", "tests"):
        assert any(file.startswith(f"{top}/") for file in checked), top
    assert not any("/data/" in file for file in checked)


def test_exceptions_are_needed() -> None:
    for file, names in check_words.OTHER_MEANING.items():
        with tokenize.open(ROOT / file) as source:
            assert names <= {token.string for token in tokenize.generate_tokens(source.readline)}, file


def test_the_glossary_lists_the_names_that_changed() -> None:
    replaced = (ROOT / check_words.GLOSSARY).read_text(encoding="utf-8").partition("## Names that changed")[2]
    for name in ("Shape", "Outlook", "Picker", "PodAsk", "Happening", "Teller", "World"):
        assert re.search(rf"\b{name}\b", replaced), name
