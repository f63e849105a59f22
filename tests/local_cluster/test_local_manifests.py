"""Reading manifests: what parses is read, what does not is one clear message."""

from pathlib import Path

import pytest
from deviceshare_cluster.local import parse_manifests, read_manifests

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"


def test_documents_and_lists_of_one_file() -> None:
    text = f"# nothing\n---\n{POD}---\napiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: Node}}\n- 3\n"
    read = parse_manifests(text, "a.yaml")
    assert [(one.object["kind"], one.source) for one in read.manifests] == [
        ("Pod", "a.yaml, line 3"),
        ("Node", "a.yaml, line 7, items[0]"),
    ]
    assert [problem.subject for problem in read.problems] == ["File a.yaml, line 7, items[1]"]


def test_json_is_read() -> None:
    (one,) = parse_manifests('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}', "a.json").manifests
    assert one.object["metadata"] == {"name": "a"}


def test_what_does_not_parse_is_said_with_its_place_and_the_documents_before_it_are_read() -> None:
    read = parse_manifests(f"{POD}---\nspec:\n  containers: [a\nb: c\n", "bad.yaml")
    assert len(read.manifests) == 1
    (problem,) = read.problems
    assert problem.subject == "File bad.yaml"
    assert problem.field == "line 7, column 2"
    assert "expected ',' or ']'" in problem.value
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    ("text", "field", "value"),
    [
        ("just words", "document", "a str"),
        ("- a", "document", "a list"),
        ("kind: Pod", "apiVersion", "nothing"),
        ("apiVersion: v1", "kind", "nothing"),
        ("apiVersion: 1\nkind: Pod", "apiVersion", "1"),
    ],
)
def test_a_document_that_is_no_object(text: str, field: str, value: str) -> None:
    (problem,) = parse_manifests(text, "x.yaml").problems
    assert (problem.subject, problem.field, problem.value) == ("File x.yaml, line 1", field, value)


@pytest.mark.parametrize(
    "text",
    [
        "a: !!python/object:os.system {}",
        "\x00",
        "a: *b",
        "{{ template }}: x",
        "? [a]\n: b",
        "a: !!int",
        "a: !!bool x",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: 0x" + "f" * 4000 + "}",
    ],
)
def test_strange_files_are_problems(text: str) -> None:
    read = parse_manifests(text, "x.yaml")
    assert read.manifests == []
    assert len(read.problems) == 1


def test_a_directory_is_read_in_load_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    kinds = ("Pod", "Job", "Node", "Queue", "PriorityClass", "ConfigMap", "PodGroup", "Deployment")
    for number, kind in enumerate(kinds):
        home = tmp_path / "sub" if number % 2 else tmp_path
        (home / f"{number}.yaml").write_text(f"apiVersion: v1\nkind: {kind}\n")
    (tmp_path / "broken.yml").write_text("a: [")
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "README.md").write_text("no: manifest")
    read = read_manifests(tmp_path)
    assert [one.object["kind"] for one in read.manifests] == [
        *("PriorityClass", "Queue", "ConfigMap", "Node", "PodGroup", "Job", "Pod", "Deployment")
    ]
    assert read.manifests[0].source == "4.yaml, line 1"
    assert [problem.subject for problem in read.problems] == ["File broken.yml", "File latin.json"]


def test_one_file_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    assert len(read_manifests(path).manifests) == 1
    with pytest.raises(FileNotFoundError, match=r"none\.yaml"):
        read_manifests(tmp_path / "none.yaml")
