"""No command writes to the terminal what a user or device plugin put into a text: escapes, C1, bidi, further lines."""

import io
import json
import logging
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from deviceshare.model import (
    Card,
    CardCordon,
    Explanation,
    NearCard,
    NearNode,
    NodeFact,
    OtherPodFact,
    PodFact,
    PodGroupFact,
    Problem,
    QueueFact,
    Refusal,
    Synced,
    visible,
    visible_lines,
)
from deviceshare_bus.messages import subjects
from deviceshare_bus.messages.codec import Events, Step, encode
from deviceshare_bus.messages.subjects import Stream
from deviceshare_cli.errors import CommandError
from deviceshare_cli.main import main
from deviceshare_cli.output import indented_json, yaml_text
from deviceshare_cli.reading.reader import StoredMessage
from deviceshare_cli.reading.snapshot import SnapshotFile
from hypothesis import given
from hypothesis import strategies as st
from support.hostile_texts import TEXT, harmless
from support.metrics_messages import ASK, claim, grants, ledger

PROBLEM = Problem(f"Pod {TEXT}", TEXT, TEXT, TEXT)


def messages() -> list[StoredMessage]:
    """Return what the services may have published: each text that they do not choose themselves is hostile."""
    card = Card(TEXT, 0, 10, 11178, 100, TEXT, True, "hami-core", cordoned=True)
    cordon = CardCordon(TEXT, TEXT, TEXT, TEXT)
    refusal = Refusal(code=TEXT, text=TEXT, nodes=1, asked=2, free=1, unit=TEXT, nearest=TEXT)
    near = NearNode(node=TEXT, refusals=(refusal,), cards=(NearCard(id=TEXT, index=0, codes=(TEXT,)),))
    why = Explanation(
        uid="u1", namespace="default", name="w", at=1.0, decision="pending", message=TEXT, gang=TEXT, why=(TEXT,),
        caveats=(TEXT,), refusals=(refusal, msgspec.structs.replace(refusal, nodes=0)), closest=(near,), nodes=1,
        first_failing=(refusal,), decided_by=TEXT, queue=TEXT, environment={TEXT: {TEXT: TEXT}},
    )  # fmt: skip
    pod = {"namespace": "default", "queue": TEXT, "problems": (PROBLEM,), "group": f"default/{TEXT}", "ask": ASK}
    step = Step("u1", "default/w", TEXT, 1.0, TEXT, TEXT)
    held = grants(card=TEXT, container=TEXT)
    published: list[tuple[str, Any]] = [
        (subjects.fact("node", "n1"), NodeFact(name="n1", cards=(card,), problems=(PROBLEM,), cordons=(cordon,))),
        (subjects.fact("pod", "u1"), PodFact(uid="u1", name="w", scheduler="volcano", **pod)),
        (subjects.fact("pod", "uid-a"), PodFact(uid="uid-a", name="a", node="n1", held=held, **pod)),
        (subjects.fact("otherpod", "u3"), OtherPodFact(uid="u3", namespace="default", name="o", scheduler=TEXT)),
        (subjects.fact("queue", "default"), QueueFact(name="default", parent=TEXT, problems=(PROBLEM,))),
        (
            subjects.fact("podgroup", "default.g"),
            PodGroupFact(key="default/g", uid="g", queue=TEXT, problems=(PROBLEM,)),
        ),
        ("cluster.synced", Synced()),
        ledger(claim("a", grants=held, decided_by=TEXT)),
        (subjects.explain("u1"), why),
        (subjects.event("placement"), Events(service="placement", instance=TEXT, at=1.0, steps=(step,))),
    ]
    stream = {"cluster": Stream.CLUSTER, "ledger": Stream.LEDGER, "explain": Stream.EXPLAIN, "event": Stream.EVENT}
    return [
        StoredMessage(stream[subject.partition(".")[0]], subject, number, encode(message))
        for number, (subject, message) in enumerate(published, 1)
    ]


def objects() -> dict[str, list[dict[str, Any]]]:
    """Return objects as a raw write to a local store can leave them: also their names are hostile."""
    condition = {"type": TEXT, "status": TEXT, "reason": TEXT, "message": TEXT}
    labels = {"labels": {TEXT: TEXT}, "annotations": {TEXT: TEXT}, "resourceVersion": "1"}
    container = {"name": TEXT, "image": TEXT, "resources": {"limits": {TEXT: TEXT}}}
    pod = {
        "apiVersion": "v1", "kind": "Pod",
        "spec": {"schedulerName": TEXT, "containers": [container], "nodeSelector": {TEXT: TEXT}},
        "status": {"phase": TEXT, "conditions": [condition]},
    }  # fmt: skip
    names = ("w", "a", TEXT)
    event = {
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e", "namespace": "default"}, "type": TEXT,
        "reason": TEXT, "message": TEXT, "source": {"component": TEXT}, "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "w"},
    }  # fmt: skip
    node = {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1", **labels},
        "spec": {"taints": [{"key": TEXT, "value": TEXT, "effect": TEXT}]},
        "status": {"conditions": [condition], "allocatable": {TEXT: TEXT}},
    }  # fmt: skip
    group = {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default", **labels},
        "spec": {"minMember": 1, "queue": TEXT}, "status": {"phase": TEXT, "conditions": [condition]},
    }  # fmt: skip
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default", **labels},
        "spec": {"parent": TEXT}, "status": {"state": TEXT},
    }  # fmt: skip
    return {
        "Pod": [{**pod, "metadata": {"name": name, "namespace": "default", **labels}} for name in names],
        "Event": [event], "Node": [node], "PodGroup": [group], "Queue": [queue],
    }  # fmt: skip


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a snapshot of a system with hostile texts."""
    found = {kind: tuple(msgspec.Raw(msgspec.json.encode(one)) for one in some) for kind, some in objects().items()}
    content = SnapshotFile(at=1e9, target=TEXT, schedulers=("volcano", TEXT), objects=found, messages=tuple(messages()))
    path = tmp_path_factory.mktemp("hostile") / "snapshot.json"
    path.write_bytes(msgspec.json.encode(content))
    return path


KINDS = ("nodes", "pods", "devices", "claims", "podgroups", "queues", "events")
COMMANDS = [
    *(("get", kind, "-o", form) for kind in KINDS for form in ("wide", "json", "yaml", "name")),
    *(("get", kind) for kind in KINDS),
    *(("describe", kind) for kind in ("nodes", "pods", "podgroups", "queues")),
    *(("explain", *target, "-o", form) for form in ("text", "wide", "json") for target in (
        ("pod", "w"), ("pod", "a"), ("node", "n1"), ("queue", "default"), ("podgroup", "g"), ("device", f"n1/{TEXT}"),
    )),
    ("explain", "pod", f"no{TEXT}"),
    ("get", "pods", f"no{TEXT}"),
    ("get", "pods", "-l", TEXT),
    ("fit", "-f", "POD"),
    ("fit", "-f", "POD", "-o", "json"),
    ("top",),
    ("top", "-o", "json"),
    ("simulate", "cluster", "--pods", "POD"),
    ("simulate", "cluster", "--pods", "POD", "--json"),
]  # fmt: skip


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """Return what a command writes to stdout and stderr, in this process."""
    streams = [io.TextIOWrapper(io.BytesIO(), "utf-8") for _ in range(2)]
    monkeypatch.setattr(sys, "argv", ["deviceshare", *arguments])
    monkeypatch.setattr(sys, "stdout", streams[0])
    monkeypatch.setattr(sys, "stderr", streams[1])
    monkeypatch.setattr(logging.getLogger("deviceshare"), "propagate", False)
    with pytest.raises(SystemExit):
        main()
    for stream in streams:
        stream.flush()
    return "".join(stream.buffer.getvalue().decode() for stream in streams)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def pod(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Give the file of a pod with hostile texts."""
    limits = {"volcano.sh/vgpu-number": "1", "example.com/a": "1"}
    container = {"name": "c", "image": "i", "resources": {"limits": limits}}
    metadata = {"name": "p", "annotations": {"nvidia.com/use-gputype": TEXT, "volcano.sh/vgpu-use-gpuuuid": TEXT}}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    path = tmp_path_factory.mktemp("pod") / "pod.yaml"
    path.write_text(json.dumps({**manifest, "spec": {"schedulerName": "volcano", "containers": [container]}}))
    return str(path)


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: visible(" ".join(arguments))[:60])
def test_output_has_no_character_that_is_not_printable_and_no_line_of_others(
    snapshot: Path, pod: str, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    given = [pod if each == "POD" else each for each in arguments]
    written = run(monkeypatch, *given, "--snapshot", str(snapshot))
    assert written
    harmless(written)


def test_an_error_is_one_line_and_its_details_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def app() -> None:
        raise CommandError("pod a\nTOTAL 9\x1b[2J", "line 1\nline 2\x1b[2J")

    monkeypatch.setattr("deviceshare_cli.main.app", app)
    assert run(monkeypatch).splitlines() == [r"deviceshare: pod a\nTOTAL 9\u001b[2J", "line 1", r"line 2\u001b[2J"]


def texts(value: Any) -> set[str]:
    """Return the texts in a value: keys and values."""
    if isinstance(value, dict):
        return set().union(*(texts(each) for pair in value.items() for each in pair))
    if isinstance(value, list):
        return set().union(*map(texts, value))
    return {value} if isinstance(value, str) else set()


def test_json_and_yaml_have_the_same_values(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for kind, name in (("pods", "Pod"), ("podgroups", "PodGroup"), ("queues", "Queue"), ("events", "Event")):
        given = ("get", kind, "-A", "--snapshot", str(snapshot), "-o")
        if kind != "pods":
            assert TEXT in texts(json.loads(run(monkeypatch, *given, "json")))
        found = yaml.safe_load(run(monkeypatch, *given, "yaml"))["items"]
        assert found
        assert [each for each in found if each not in objects()[name]] == []
    explained = json.loads(run(monkeypatch, "explain", "pod", "w", "-o", "json", "--snapshot", str(snapshot)))
    assert explained["explanation"]["message"] == TEXT
    assert explained["annotations"] == {TEXT: TEXT}


def test_yaml_is_written_by_one_class() -> None:
    yaml_text({})
    classes = yaml.SafeDumper.__subclasses__()
    yaml_text({})
    assert yaml.SafeDumper.__subclasses__() == classes


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=5))
def test_any_text_is_written_so_that_it_is_read_again(value: Any) -> None:
    for written in (visible_lines(indented_json(value)), yaml_text(value)):
        assert {each for each in written if not each.isprintable()} <= {"\n"}
    assert json.loads(visible_lines(indented_json(value))) == value
    assert yaml.safe_load(yaml_text(value)) == value
