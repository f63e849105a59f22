"""Answers that are as recorded after the input is replaced by what Volcano reads."""

import json
import re
from copy import deepcopy

import pytest
from support.recorded_cases import IDS, Case, Run, Write, a_case, recorded, replayed


def explained_by(name: str, lines: list[str]) -> bool:
    return lines[-1].endswith(" passed, 0 failed") and any(line.startswith(f"{name} ") for line in lines)


def with_types(case: Case, chosen: str, **lists: str) -> Case:
    """Make the chosen card an A100 and all others A10, and add lists of types to the pod."""
    key = "volcano.sh/node-vgpu-register"
    cards = [card.split(",") for card in case["node"]["annotations"][key].split(":") if card]
    shown = [[*card[:3], "NVIDIA-A100" if card[0] in chosen else "NVIDIA-A10", *card[4:]] for card in cards]
    case["node"]["annotations"][key] = "".join(",".join(card) + ":" for card in shown)
    wanted = {f"nvidia.com/{name}-gputype": types for name, types in lists.items()}
    case["steps"] = case["steps"][:1]
    case["steps"][0]["pod"]["annotations"] = case["steps"][0]["pod"].get("annotations", {}) | wanted
    return case


def chosen_in(case: Case) -> str:
    text: str = case["steps"][0]["allocate"]["annotations"][IDS]
    return text


@pytest.mark.parametrize(
    ("name", "lists"),
    [
        ("types-by-words", {"use": "A10"}),
        ("types-by-words", {"nouse": "A100 "}),
        ("both-type-lists", {"use": "NVIDIA", "nouse": "A100"}),
        ("empty-type-items", {"use": "A10,,Z"}),
    ],
)
def test_types_of_cards(write: Write, run: Run, name: str, lists: dict[str, str]) -> None:
    case = a_case("vgpu-hamicore", cards=2)
    case = with_types(case, chosen_in(case), **lists)
    lines = run(write(case))[1]
    assert lines[-1].endswith(" passed, 0 failed")
    assert any(line.startswith(f"{name} ") for line in lines)
    case["steps"][0]["allocate"]["annotations"][IDS] += "GPU-other,NVIDIA,1,1:"
    assert run(write(case))[1][-1] == "0 passed, 1 failed"


def whole_card(case: Case) -> bool:
    """Return whether the first pod requests one whole card and no other device resource."""
    containers = case["steps"][0]["pod"]["containers"] if case["steps"] else ()
    return [each["limits"] for each in containers] == [{"cpu": "1", "volcano.sh/vgpu-number": "1"}]


def test_requests_of_vgpus(write: Write, run: Run) -> None:
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


def test_mig_cards_without_a_geometry(write: Write, run: Run) -> None:
    key = "volcano.sh/node-vgpu-register"
    case = a_case("vgpu-hamicore", cards=2)
    case["steps"] = case["steps"][:1]
    case["node"]["annotations"][key] = re.sub("NVIDIA-[^,]*", "NVIDIA-L40", case["node"]["annotations"][key])
    assert run(write(case))[1][-1] == "1 passed, 0 failed"
    case["node"]["annotations"][key] = case["node"]["annotations"][key].replace("hami-core:", "mig:")
    assert explained_by("mig-without-geometry", run(write(case))[1])
    case["steps"][0]["allocate"]["annotations"][IDS] += "GPU-other,NVIDIA,1,1:"
    assert run(write(case))[1][-1] == "0 passed, 1 failed"


def test_chips_without_a_name(write: Write, run: Run) -> None:
    case = next(
        deepcopy(each)
        for each in recorded("vnpu-mindcluster")
        if "node" in each and "servertype" not in each["node"]["labels"] and "annotations" in each["node"]
    )
    case["node"]["labels"]["servertype"] = "Ascend310P-8"
    assert run(write(case))[1][-1] == "0 passed, 1 failed"
    del case["node"]["labels"]["node.kubernetes.io/npu.chip.name"]
    assert explained_by("unnamed-chips", run(write(case))[1])


def test_unhealthy_chips(write: Write, run: Run) -> None:
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


def test_a_downgraded_template_is_another_template(write: Write, run: Run) -> None:
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
    # 2 AI cores and 1 AI CPU are left: enough for vir02_1c, which Volcano does not place beside vir02.
    node["state"] = [[index, 2, 1, "null", 6, 6, "null", True, False]]
    node["extra"]["idle_npu_core"] = 2
    node["filter"] = {"fits": False, "code": 1, "error": "is using"}
    case["batch"] = {"pod": pod, "nodes": [node]}
    lines = run(write(case))[1]
    assert lines[-1] == "1 passed, 0 failed"
    assert any(line.startswith("several-templates ") for line in lines)
