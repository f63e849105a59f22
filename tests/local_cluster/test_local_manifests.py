"""Reading manifests: valid ones are read, each invalid one gives one clear message."""

from pathlib import Path

import pytest
from deviceshare.model import RequestError
from deviceshare_localcluster import parse_manifests, read_manifests
from deviceshare_localcluster.admission import Priorities, admit

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"


def test_documents_and_lists_of_one_file() -> None:
    text = f"# nothing\n---\n{POD}---\napiVersion: v1\nkind: List\nitems:\n- {{apiVersion: v1, kind: Node}}\n- 3\n"
    read = parse_manifests(text, "a.yaml")
    assert [(one.object["kind"], one.origin.locate("")) for one in read.manifests] == [
        ("Pod", "File a.yaml, line 3, column 1"),
        ("Node", "File a.yaml, line 10, column 3"),
    ]
    assert [problem.subject for problem in read.problems] == ["File a.yaml, line 11, column 3"]


def test_json_is_read() -> None:
    (one,) = parse_manifests('{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}', "a.json").manifests
    assert one.object["metadata"] == {"name": "a"}


def test_a_parse_error_has_its_position_and_earlier_documents_are_read() -> None:
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
        ("just words", "column 1: document", "a str"),
        ("- a", "column 3: document", "a str"),
        ("- - a", "column 5: document", "a str"),
        ("kind: Pod", "column 1: apiVersion", "nothing"),
        ("apiVersion: v1", "column 1: kind", "nothing"),
        ("apiVersion: 1\nkind: Pod", "column 13: apiVersion", "1"),
    ],
)
def test_a_document_that_is_no_object(text: str, field: str, value: str) -> None:
    (problem,) = parse_manifests(text, "x.yaml").problems
    assert (f"{problem.subject}: {problem.field}", problem.value) == (f"File x.yaml, line 1, {field}", value)


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


@pytest.mark.parametrize(
    ("text", "field", "message"),
    [
        ("metadata: &a {a: *a}", "line 1, column 11", "an anchor contains its own alias"),
        ("kind: Pod\nmetadata: {name: a}\nkind: Node", "line 3, column 1", "the key 'kind' occurs twice"),
        ('{"kind": "Pod", "spec": {"a": 1, "a": 2}}', "line 1, column 34", "the key 'a' occurs twice"),
        ("a: " + "[" * 201 + "]" * 201, "line 1, column 203", "more than 200 levels"),
        ("a: " + "[" * 100_000 + "]" * 100_000, "line 1, column 203", "more than 200 levels"),
        ("a:\n" + "- " * 300, "line 2, column 399", "more than 200 levels"),
        (
            "a: &a [" + "0," * 100 + "]\nb: &b [" + "*a," * 100 + "]\nc: [" + "*b," * 20 + "]",
            "line 1, column 1",
            "aliases repeat more than 100000 values",
        ),
    ],
)
def test_values_that_are_too_deep_or_too_large_are_problems(text: str, field: str, message: str) -> None:
    (problem,) = parse_manifests(text, "x.yaml").problems
    assert (problem.field, problem.value) == (field, message)


def test_aliases_and_nesting_within_the_limits_are_read() -> None:
    text = POD + "a: &a [1, 2]\nb: [*a, *a]\nc: " + "[" * 199 + "]" * 199
    (manifest,) = parse_manifests(text, "x.yaml").manifests
    assert manifest.object["b"] == [[1, 2], [1, 2]]


def test_a_directory_is_read_in_load_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    kinds = ("Pod", "Job", "Node", "Queue", "PriorityClass", "ConfigMap", "PodGroup", "DaemonSet")
    for number, kind in enumerate(kinds):
        home = tmp_path / "sub" if number % 2 else tmp_path
        (home / f"{number}.yaml").write_text(f"apiVersion: v1\nkind: {kind}\n")
    (tmp_path / "broken.yml").write_text("a: [")
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "README.md").write_text("no: manifest")
    read = read_manifests(tmp_path)
    assert [one.object["kind"] for one in read.manifests] == [
        *("PriorityClass", "Queue", "ConfigMap", "Node", "PodGroup", "Job", "Pod", "DaemonSet")
    ]
    assert read.manifests[0].origin.locate("") == "File 4.yaml, line 1, column 1"
    assert [problem.subject for problem in read.problems] == ["File broken.yml", "File latin.json"]


def test_one_file_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(POD)
    assert len(read_manifests(path).manifests) == 1
    with pytest.raises(FileNotFoundError, match=r"none\.yaml"):
        read_manifests(tmp_path / "none.yaml")


def test_a_message_about_a_field_names_its_line_and_column() -> None:
    text = f"{POD}spec:\n  containers:\n  - name: main\n    image: 7\n"
    (manifest,) = parse_manifests(text, "jobs.yaml").manifests
    with pytest.raises(RequestError) as caught:
        admit(manifest.object, uid="u", now="now", priorities=Priorities())
    problem = caught.value.problem
    assert manifest.located(problem.field, str(problem)) == (
        "File jobs.yaml, line 7, column 12: Pod default/a: spec.containers[0].image: "
        "'7' is not valid: expected the image to run"
    )
