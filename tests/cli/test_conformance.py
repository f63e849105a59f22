"""`deviceshare conformance`: it compares everything, says what differs, and fails where it should."""

import gzip
import json
import re
import subprocess
import sys
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from deviceshare_cli.conformance import deviations
from deviceshare_cli.conformance.command import conformance, outcomes
from deviceshare_cli.conformance.deviations import DEVIATIONS, MOST_TOGETHER, explanation
from deviceshare_cli.conformance.recorded import FORMS
from deviceshare_cli.conformance.report import Outcome
from deviceshare_cli.errors import CommandError

COMMAND = str(Path(sys.executable).parent / "deviceshare")
DATA = Path(__file__).parents[1] / "data" / "golden"
OF_DEVIATIONS = DATA.parent / "deviations" / "cases.jsonl.gz"
"""Cases that differ on purpose: some for each deviation."""
MODES = ["rebuild", "cache", "session"]
IDS = "volcano.sh/vgpu-ids-new"

Case = dict[str, Any]
Write = Callable[..., Path]


def recorded(family: str) -> list[Case]:
    return read(DATA / f"{family}.jsonl.gz")


def replayed(family: str) -> list[Outcome]:
    return replay(DATA / f"{family}.jsonl.gz")


@cache
def read(path: Path) -> list[Case]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


@cache
def replay(path: Path) -> list[Outcome]:
    return list(outcomes(path))


def a_case(
    family: str, mode: str = "rebuild", *, by_chance: bool = False, scored: bool = False, cards: int = 1
) -> Case:
    """Return a recorded case whose first step places a pod, with nothing in it that we do otherwise.

    ``by_chance``: which card it is depends on chance with Volcano; ``scored``: its score is compared; ``cards``: so
    many there are at least.
    """
    for case, outcome in zip(recorded(family), replayed(family), strict=True):
        first = case["steps"][0] if case.get("steps") else {}
        if outcome.touched or outcome.on_purpose or case["mode"] != mode or not first.get("allocate", {}).get("ok"):
            continue
        enough = len(case["initial"]["state"]) >= cards and (first["score"] or not scored)
        if enough and bool(first.get("nondeterministic")) == by_chance:
            return deepcopy(case)
    raise AssertionError(family)


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write cases as a file with the device configurations beside it."""
    (tmp_path / "configs").symlink_to(DATA / "configs")

    def write(*cases: Case | str, name: str = "cases.jsonl") -> Path:
        path = tmp_path / name
        path.write_text("".join((case if isinstance(case, str) else json.dumps(case)) + "\n" for case in cases))
        return path

    return write


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, list[str]]]:
    """Run the command; returns its status and lines."""

    def run(*files: Path, verbose: bool = False, as_json: bool = False) -> tuple[int, list[str]]:
        status = conformance(files, verbose=verbose, json=as_json)
        return status, capsys.readouterr().out.splitlines()

    return run


def test_the_command_as_its_user_calls_it(write: Write) -> None:
    def called(*arguments: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [COMMAND, "conformance", *map(str, arguments)], capture_output=True, text=True, timeout=60, check=False
        )

    right, wrong = (a_case("vgpu-hamicore", mode) for mode in ("rebuild", "cache"))
    change_state(wrong["steps"][0])
    ended = called("--verbose", write(right), write(wrong, name="others.jsonl"))
    assert (ended.returncode, ended.stdout.splitlines()[-1], ended.stderr) == (1, "1 passed, 1 failed", "")
    nothing = called("nowhere.jsonl")
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert nothing.stderr == "deviceshare: nowhere.jsonl: No such file or directory\n"


def change_fit(step: Case) -> None:
    step["filter"]["fits"] = False


def change_score(step: Case) -> None:
    step["score"] += 0.5


def change_annotation(step: Case) -> None:
    step["allocate"]["annotations"][IDS] += "GPU-other,NVIDIA,1,1:"


def change_clock(step: Case) -> None:
    step["allocate"]["annotations"]["volcano.sh/vgpu-time"] = "<unix-nanos>"


def drop_annotation(step: Case) -> None:
    del step["allocate"]["annotations"]["volcano.sh/bind-phase"]


def change_state(step: Case) -> None:
    step["state"][0][1] += 1


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("change", "field"),
    [
        (change_fit, "fits"),
        (change_score, "score"),
        (change_annotation, f"annotation {IDS}"),
        (change_clock, "annotation volcano.sh/vgpu-time"),
        (drop_annotation, "annotation volcano.sh/bind-phase"),
        (change_state, "state"),
    ],
)
def test_any_other_answer_fails(
    write: Write, run: Callable[..., Any], mode: str, change: Callable[[Case], None], field: str
) -> None:
    case = a_case("vgpu-hamicore", mode, scored=True)
    change(case["steps"][0])
    status, lines = run(write(a_case("gpushare-memory"), case))
    assert (status, lines[-1]) == (1, "1 passed, 1 failed")
    assert lines[0].startswith(f"FAILED {case['id']} (")
    assert lines[0].endswith("cases.jsonl, line 2; - recorded, + ours)")
    at = next(number for number, line in enumerate(lines) if line.endswith(f": {field}"))
    assert lines[at].startswith("  step 0, place ")
    assert (lines[at + 1][:4], lines[at + 2][:4]) == ("  - ", "  + ")
    assert lines[at + 1][4:] != lines[at + 2][4:]


@pytest.mark.parametrize("family", sorted(FORMS))
def test_another_state_of_any_family_fails(write: Write, run: Callable[..., Any], family: str) -> None:
    changed = []
    for case, outcome in zip(recorded(family), replayed(family), strict=True):
        if outcome.verdict.steps and "batch" not in case and case["initial"]["present"]:
            changed.append(deepcopy(case))
            for step in changed[-1]["steps"]:
                step["state"][-1][1] += 1
    changed = changed[:60]
    status, lines = run(write(*changed))
    assert (status, lines[-1]) == (1, f"0 passed, {len(changed)} failed")


def test_other_instances_of_a_mig_card_fail(write: Write, run: Callable[..., Any]) -> None:
    case = a_case("vgpu-mig")
    kinds = next(kinds for _, kinds in case["steps"][0]["mig"] if kinds)
    kinds[0][1][-1] += 1
    assert run(write(case))[0] == 1


def test_another_best_node_fails(write: Write, run: Callable[..., Any]) -> None:
    case = next(
        case
        for case, outcome in zip(recorded("vnpu-mindcluster"), replayed("vnpu-mindcluster"), strict=True)
        if len(case.get("batch", {}).get("scores", ())) > 2 and not outcome.verdict.deviations
    )
    assert run(write(case))[0] == 0
    changed = deepcopy(case)
    scores = changed["batch"]["scores"]
    best, other = (choose(scores, key=scores.__getitem__) for choose in (max, min))
    scores[best], scores[other] = scores[other], scores[best]
    status, lines = run(write(changed))
    assert status == 1
    assert lines[1].endswith(": best node")


def test_of_equally_full_nodes_any_is_the_best(write: Write, run: Callable[..., Any]) -> None:
    case = next(
        deepcopy(each) for each in recorded("vnpu-mindcluster") if len(each.get("batch", {}).get("scores", ())) > 2
    )
    scores = case["batch"]["scores"]
    best = max(scores, key=scores.__getitem__)
    twin = json.loads(
        json.dumps(next(n for n in case["batch"]["nodes"] if n["node"]["name"] == best)).replace(best, "a")
    )
    case["batch"]["nodes"].append(twin)
    scores["a"] = 0
    assert run(write(case))[1][-1] == "1 passed, 0 failed"
    twin["node"]["allocatable"]["huawei.com/npu-core"] = twin["node"]["capacity"]["huawei.com/npu-core"] = "800"
    twin["extra"]["idle_npu_core"] += 800 - 8 * len(twin["state"])
    scores[best], scores["a"] = scores["a"], scores[best]  # now as if the emptier one had been Volcano's best
    assert run(write(case))[1][-1] == "0 passed, 1 failed"


def test_a_template_that_would_be_downgraded_is_one_more_template(write: Write, run: Callable[..., Any]) -> None:
    case = next(
        each
        for each in map(deepcopy, recorded("vnpu-mindcluster"))
        if any(len(node["state"] or ()) == 1 and not node["pods"] for node in each.get("batch", {}).get("nodes", ()))
    )
    batch = case["batch"]
    node = next(each for each in batch["nodes"] if len(each["state"]) == 1 and not each["pods"])
    index = node["state"][0][0]
    pod = batch["pod"]
    pod["labels"] = {"ring-controller.atlas": "ascend-310P", "vnpu-level": "high"}
    pod["containers"][0]["limits"]["huawei.com/npu-core"] = "2"
    node["pods"] = [
        pod
        | {
            "name": f"{number}",
            "uid": f"{number}",
            "annotations": {
                "huawei.com/npu-core": f"{index}-vir02",
                "huawei.com/AscendReal": f"Ascend310P-2c-{number}-{index}_{number}",
            },
        }
        for number in range(3)
    ]
    # 2 AI cores and 1 AI CPU are left: room for vir02_1c, which Volcano does not let beside vir02.
    node["state"] = [[index, 2, 1, "null", 6, 6, "null", True, False]]
    node["extra"]["idle_npu_core"] = 2
    node["filter"] = {"fits": False, "code": 1, "error": "is using"}
    case["batch"] = {"pod": pod, "nodes": [node]}
    lines = run(write(case))[1]
    assert lines[-1] == "1 passed, 0 failed"
    assert any(line.startswith("several-templates ") for line in lines)


def test_of_what_depends_on_chance_any_choice_that_was_seen_passes(write: Write, run: Callable[..., Any]) -> None:
    case = a_case("vnpu-mindcluster", by_chance=True)
    step = case["steps"][0]
    choice = step["allocate"]["annotations"]["huawei.com/npu-core"]
    other = step["alternatives"][0]
    one, two = (int(each[0]) for each in (choice, other))
    # As if another of the equal chips had been recorded.
    step["allocate"]["annotations"]["huawei.com/npu-core"], step["alternatives"] = other, [choice]
    step["state"][one][1:], step["state"][two][1:] = step["state"][two][1:], step["state"][one][1:]
    case["steps"] = [step]
    assert run(write(case))[0] == 0
    step["alternatives"] = []
    assert run(write(case))[0] == 1


def deviating(name: str) -> Case:
    """Return a case that differs by this deviation; by it alone, where there is one."""
    found = [
        (outcome.verdict.deviations != (name,), number, case)
        for path in (OF_DEVIATIONS, *(DATA / f"{family}.jsonl.gz" for family in FORMS))
        for number, (case, outcome) in enumerate(zip(read(path), replay(path), strict=True))
        if name in outcome.verdict.deviations
    ]
    return deepcopy(min(found, key=lambda each: each[:2])[2])


EACH_DEVIATION = pytest.mark.parametrize("name", [each.name for each in DEVIATIONS])
UNSEEN = {
    "registered-node": {"allocatable": ["volcano.sh/vgpu-number", "volcano.sh/vgpu-memory", "volcano.sh/vgpu-cores"]},
    "number-only-nodes": {"capacity": ["volcano.sh/gpu-memory"]},
    "unnamed-chips": {"labels": ["node.kubernetes.io/npu.chip.name"]},
}
"""Deviations by which Volcano sees no devices on a node, and of what one is missing there for that."""


@EACH_DEVIATION
def test_a_deviation_explains_nothing_but_itself(write: Write, run: Callable[..., Any], name: str) -> None:
    case = deviating(name)
    lines = run(write(case))[1]
    assert any(line.split()[:2] == [name, "1"] for line in lines)
    assert lines[-1].endswith(" passed, 0 failed")
    for step in (*case.get("steps", ()), *case.get("batch", {}).get("nodes", ())):
        if step.get("allocate", {}).get("ok"):
            key = next(key for key in step["allocate"]["annotations"] if not key.endswith("time"))
            step["allocate"]["annotations"][key] += "x"
        for row in step.get("state") or ():
            row[1] += 1
    for part, names in UNSEEN.get(name, {}).items():
        # Now Volcano would have seen the devices as well.
        case["node"][part] = dict.fromkeys(names, "100") | case["node"][part]
    assert run(write(case))[1][-1] == "0 passed, 1 failed"


@EACH_DEVIATION
def test_without_its_deviation_a_difference_is_a_failure(
    write: Write, run: Callable[..., Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = deviating(name)
    monkeypatch.setattr(deviations, "DEVIATIONS", tuple(each for each in DEVIATIONS if each.name != name))
    assert run(write(case))[1][-1] == "0 passed, 1 failed"


def test_the_fewest_deviations_explain_a_difference() -> None:
    every = DEVIATIONS[:6]
    together = [every[1], every[3]]
    found = explanation(every, lambda some: set(together) <= set(some) and every[0] not in some)
    assert list(found) == together
    assert list(explanation(every, lambda some: every[4] in some)) == [every[4]]
    assert explanation(every, lambda some: len(some) > MOST_TOGETHER) == ()


def test_the_policy_of_gpu_share_explains_nothing_of_other_families(write: Write, run: Callable[..., Any]) -> None:
    changed = []
    for case, outcome in zip(recorded("vgpu-hamicore"), replayed("vgpu-hamicore"), strict=True):
        if not (outcome.touched or outcome.on_purpose or "deviceshare.SchedulePolicy" in case["args"]):
            changed.append(case | {"args": case["args"] | {"deviceshare.SchedulePolicy": "binpack"}})
    status, lines = run(write(*changed))
    assert status == 1
    assert not any(line.startswith("gpu-share-policy ") for line in lines)


def with_types(case: Case, chosen: str, **wishes: str) -> Case:
    """Let the card that was chosen be an A100 and all others an A10, and the pod wish for types."""
    key = "volcano.sh/node-vgpu-register"
    cards = [card.split(",") for card in case["node"]["annotations"][key].split(":") if card]
    shown = [[*card[:3], "NVIDIA-A100" if card[0] in chosen else "NVIDIA-A10", *card[4:]] for card in cards]
    case["node"]["annotations"][key] = "".join(",".join(card) + ":" for card in shown)
    wanted = {f"nvidia.com/{name}-gputype": types for name, types in wishes.items()}
    case["steps"] = case["steps"][:1]
    case["steps"][0]["pod"]["annotations"] = case["steps"][0]["pod"].get("annotations", {}) | wanted
    return case


def chosen_in(case: Case) -> str:
    text: str = case["steps"][0]["allocate"]["annotations"][IDS]
    return text


@pytest.mark.parametrize(
    ("name", "wishes"),
    [
        ("types-by-words", {"use": "A10"}),
        ("types-by-words", {"nouse": "A100 "}),
        ("both-type-lists", {"use": "NVIDIA", "nouse": "A100"}),
        ("empty-type-items", {"use": "A10,,Z"}),
    ],
)
def test_what_volcano_reads_of_types_explains_its_choice(
    write: Write, run: Callable[..., Any], name: str, wishes: dict[str, str]
) -> None:
    case = a_case("vgpu-hamicore", cards=2)
    case = with_types(case, chosen_in(case), **wishes)
    lines = run(write(case))[1]
    assert lines[-1].endswith(" passed, 0 failed")
    assert any(line.startswith(f"{name} ") for line in lines)
    case["steps"][0]["allocate"]["annotations"][IDS] += "GPU-other,NVIDIA,1,1:"
    assert run(write(case))[1][-1] == "0 passed, 1 failed"


def explained_by(name: str, lines: list[str]) -> bool:
    return lines[-1].endswith(" passed, 0 failed") and any(line.startswith(f"{name} ") for line in lines)


def whole_card(case: Case) -> bool:
    """Return whether the first pod asks all of one card, and nothing else of it."""
    containers = case["steps"][0]["pod"]["containers"] if case["steps"] else ()
    return [each["limits"] for each in containers] == [{"cpu": "1", "volcano.sh/vgpu-number": "1"}]


def test_what_volcano_takes_for_a_request_explains_its_answer(write: Write, run: Callable[..., Any]) -> None:
    case = next(
        deepcopy(case)
        for case, outcome in zip(recorded("vgpu-hamicore"), replayed("vgpu-hamicore"), strict=True)
        if whole_card(case) and "allocate" in case["steps"][0] and not (outcome.touched or outcome.on_purpose)
    )
    step = case["steps"][0]
    case["steps"] = [step]
    step["pod"]["init_containers"] = [{"name": "i", "limits": {"volcano.sh/vgpu-number": "1"}}]
    assert explained_by("vgpu-by-any-amount", run(write(case))[1])
    del step["pod"]["init_containers"]
    step["pod"]["containers"][0]["limits"] = {"volcano.sh/vgpu-memory": "0"}
    assert explained_by("vgpu-by-any-amount", run(write(case))[1])
    for amount in ("volcano.sh/vgpu-cores", "volcano.sh/vgpu-memory-percentage"):
        step["pod"]["containers"][0]["limits"] = {amount: "30"}
        assert run(write(case))[1][-1] == "0 passed, 1 failed"
        skipped = {**step, "has_request": False, "filter": {"fits": True, "skipped": True}}
        skipped |= {"state": case["initial"]["state"], "allocate": None, "score": None}
        assert explained_by("vgpu-by-any-amount", run(write(case | {"config": "vgpu-docs", "steps": [skipped]}))[1])


def test_that_volcano_shares_mig_cards_without_a_geometry_explains_its_choice(
    write: Write, run: Callable[..., Any]
) -> None:
    key = "volcano.sh/node-vgpu-register"
    case = a_case("vgpu-hamicore", cards=2)
    case["steps"] = case["steps"][:1]
    case["node"]["annotations"][key] = re.sub("NVIDIA-[^,]*", "NVIDIA-L40", case["node"]["annotations"][key])
    assert run(write(case))[1][-1] == "1 passed, 0 failed"
    case["node"]["annotations"][key] = case["node"]["annotations"][key].replace("hami-core:", "mig:")
    assert explained_by("mig-without-geometry", run(write(case))[1])
    case["steps"][0]["allocate"]["annotations"][IDS] += "GPU-other,NVIDIA,1,1:"
    assert run(write(case))[1][-1] == "0 passed, 1 failed"


def test_that_volcano_wants_chips_named_explains_that_it_gives_none(write: Write, run: Callable[..., Any]) -> None:
    case = next(
        deepcopy(each)
        for each in recorded("vnpu-mindcluster")
        if "node" in each and "servertype" not in each["node"]["labels"] and "annotations" in each["node"]
    )
    case["node"]["labels"]["servertype"] = "Ascend310P-8"
    assert run(write(case))[1][-1] == "0 passed, 1 failed"
    del case["node"]["labels"]["node.kubernetes.io/npu.chip.name"]
    assert explained_by("unnamed-chips", run(write(case))[1])


def test_that_volcano_gives_unhealthy_chips_explains_its_choice(write: Write, run: Callable[..., Any]) -> None:
    case = a_case("vnpu-hami")
    word = case["kind"]
    written = case["steps"][0]["allocate"]["annotations"][f"hami.io/{word}-devices-allocated"]
    chips = json.loads(case["node"]["annotations"][f"hami.io/node-register-{word}"])
    for chip in chips:
        if chip["id"] in written:
            del chip["health"]
    case["node"]["annotations"][f"hami.io/node-register-{word}"] = json.dumps(chips)
    case["steps"] = case["steps"][:1]
    lines = run(write(case))[1]
    assert lines[-1].endswith(" passed, 0 failed")
    assert any(line.startswith("unhealthy-chips ") for line in lines)


def test_many_deviations_are_told(write: Write, run: Callable[..., Any]) -> None:
    plain = [case for case in recorded("gpushare-number") if not case.get("quirk")]
    case = deviating("gpu-share-policy")
    assert "quirk" not in case
    status, lines = run(write(case, *plain[:7]))
    assert status == 0
    # The bound is one of all families together.
    assert "On purpose: 1 of 8 cases without a known defect of Volcano (12.5 %)" in lines
    every = [a_case(family) for family in FORMS]
    status, lines = run(write(case, *every, *plain[:2]))
    assert status == 0
    assert "On purpose: 1 of 9 cases without a known defect of Volcano (11.1 %, at most 12 %)" in lines
    status, lines = run(write(case, *every, plain[0]))
    assert status == 0
    assert "On purpose: 1 of 8 cases without a known defect of Volcano (12.5 %, more than 12 %)" in lines
    assert lines[-1] == "7 passed, 0 failed"


def test_a_case_is_compared_up_to_the_first_step_that_a_known_defect_touched(
    write: Write, run: Callable[..., Any]
) -> None:
    case = a_case("vgpu-hamicore")
    for step in case["steps"][1:]:
        step["state"] = [[99, 99, 99]] * len(step["state"])
    assert run(write(case))[0] == 1
    case["steps"][1]["quirks"] = ["vgpu-zero-number"]
    case["quirk"] = "vgpu-zero-number"
    status, lines = run(write(case))
    assert status == 0
    assert f"1 of {len(case['steps'])}" in "\n".join(lines)


def test_the_first_failures_are_shown_and_all_of_them_if_wanted(write: Write, run: Callable[..., Any]) -> None:
    cases = [case for case in deepcopy(recorded("vgpu-hamicore")) if not case.get("quirk") and case["steps"]][:9]
    for case in cases:
        for step in case["steps"]:
            step["state"] = []
    path = write(*cases)
    lines = run(path)[1]
    assert sum(line.startswith("FAILED") for line in lines) == 3
    assert "… and 6 more failures: --verbose shows all" in lines
    lines = run(path, verbose=True)[1]
    assert sum(line.startswith("FAILED") for line in lines) == 9
    assert sum(line.endswith(": state") for line in lines) == sum(len(case["steps"]) for case in cases)


def test_json_says_the_same(write: Write, run: Callable[..., Any]) -> None:
    wrong = a_case("vgpu-hamicore")
    change_score(wrong["steps"][0])
    path = write(a_case("vnpu-hami"), wrong)
    status, lines = run(path, as_json=True)
    shown = json.loads("\n".join(lines))
    assert (status, shown["passed"], shown["failed"]) == (1, 1, 1)
    assert [(each["family"], each["cases"], each["failed"]) for each in shown["families"]] == [
        ("vnpu-hami", 1, 0),
        ("vgpu-hamicore", 1, 1),
    ]
    (failure,) = shown["failures"]
    assert (failure["id"], failure["file"], failure["line"]) == (wrong["id"], str(path), 2)
    (difference,) = failure["differences"]
    assert difference["field"] == "score"
    assert float(difference["recorded"]) == float(difference["ours"]) + 0.5


def test_compressed_files_are_read(tmp_path: Path, run: Callable[..., Any]) -> None:
    path = tmp_path / "cases.jsonl.gz"
    path.write_bytes(gzip.compress(json.dumps(a_case("gpushare-number", by_chance=True)).encode()))
    assert run(path)[1][-1] == "1 passed, 0 failed"


def without(*path: Any) -> Callable[[Case], Case]:
    def change(case: Case) -> Case:
        part: Any = case
        for name in path[:-1]:
            part = part[name]
        del part[path[-1]]
        return case

    return change


def with_value(value: object, *path: Any) -> Callable[[Case], Case]:
    def change(case: Case) -> Case:
        part: Any = case
        for name in path[:-1]:
            part = part[name]
        part[path[-1]] = value
        return case

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda case: "{", "line 2: not JSON: "),
        (lambda case: "[]", "line 2: the line: Expected `object`, got `array`"),
        (without("id"), "line 2: the line: Object missing required field `id`"),
        (without("node"), "line 2: node: a case without batch needs it"),
        (with_value("often", "mode"), "line 2: mode: Invalid enum value 'often'"),
        (with_value("vgpu", "family"), "line 2: family: 'vgpu' is none of gpushare-memory, "),
        (with_value(1, "steps", 0, "op"), "line 2: steps[0].op: Expected `str`"),
        (without("steps", 0, "pod"), "line 2: steps[0]: Object missing required field `pod`"),
        (with_value("no", "steps", 0, "filter", "fits"), "line 2: steps[0].filter.fits: Expected `bool`, got `str`"),
        (with_value(None, "steps", 0, "state"), "line 2: steps[0].state: required for a node with devices"),
        (without("steps", 0, "allocate"), "line 2: steps[0].allocate: required for a pod that fits"),
        (without("steps", 0, "score"), "line 2: steps[0].score: required for a pod that fits"),
        (with_value([[1, 2]], "steps", 0, "state"), "line 2: steps[0].state[0]: expected 3 values, got 2"),
        (with_value("other", "config"), 'line 2: config: "other" needs '),
        (with_value({"deviceshare.SchedulePolicy": "best"}, "args"), "'best' is not valid"),
    ],
)
def test_a_line_that_is_no_case_is_named(write: Write, change: Callable[[Case], Case | str], message: str) -> None:
    path = write(a_case("vgpu-hamicore"), change(a_case("vgpu-hamicore", scored=True)))
    with pytest.raises(CommandError) as error:
        conformance([path])
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.jsonl", b"", "the file is empty: expected one JSON object per line"),
        ("blank.jsonl", b"\n \n", "the file is empty: expected one JSON object per line"),
        ("torn.jsonl.gz", gzip.compress(b"{}" * 99)[:15], "Compressed file ended"),
        ("plain.jsonl.gz", b"{}", "Not a gzipped file"),
        ("binary.jsonl", b"\xff\xfe", "line 1: not JSON"),
    ],
)
def test_a_file_without_cases_is_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(CommandError, match=message) as error:
        conformance([path])
    assert str(error.value).startswith(f"{path}: ")


def test_a_device_configuration_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "mine.yaml").write_text("nvidia: {gpuMemoryFactor: many}")
    path = tmp_path / "cases.jsonl"
    path.write_text(json.dumps(a_case("vgpu-hamicore") | {"config": "mine"}))
    with pytest.raises(CommandError) as error:
        conformance([path])
    assert "mine.yaml, line 1, column 27: nvidia.gpuMemoryFactor: 'many' is not valid" in str(error.value)
