"""`deviceshare lab bench restart`: what it writes fits together, and a small run."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from deviceshare.objects import decode_pod
from deviceshare_bus.messages.codec import decode_events, decode_ledger, decode_outcomes
from deviceshare_lab.bench.restart.contents import STEPS, TEMPLATES, Contents

CONTENTS = Contents(nodes=3, cards=2, pods=20, at=1_700_000_000.0)
COMMAND = [str(Path(sys.executable).parent / "deviceshare"), "lab", "bench", "restart"]


def test_ledgers_outcomes_steps_and_objects_name_the_same_pods() -> None:
    writes = [(write.subject, write.data) for service in STEPS for write in CONTENTS.writes(service)]
    ledgers = [decode_ledger(data) for subject, data in writes if subject.startswith("ledger.")]
    outcomes = [decode_outcomes(data) for subject, data in writes if subject.startswith("outcome.")]
    claimed = {(claim.id, claim.uid) for ledger in ledgers for claim in ledger.claims}
    assert len(claimed) == CONTENTS.pods
    assert {(one.claim, one.uid) for each in outcomes for one in each.outcomes} == claimed
    steps = [step for subject, data in writes if subject.startswith("event.") for step in decode_events(data).steps]
    assert len(steps) == 3 * CONTENTS.pods
    nodes = {claim.uid: (ledger.node, claim) for ledger in ledgers for claim in ledger.claims}
    for obj in CONTENTS.pod_objects():
        fact = decode_pod(json.dumps(obj).encode())
        node, claim = nodes[fact.uid]
        assert (fact.node, fact.ref) == (node, f"{claim.namespace}/{claim.name}")
        assert not fact.problems
        (container,), (device,) = fact.ask.containers, claim.grants[0].devices
        asked = [container.get(f"volcano.sh/vgpu-{name}") for name in ("memory", "cores")]
        assert (asked, container.get("cpu")) == ([device.memory, device.cores], dict(claim.resources)["cpu"])
    claims = [claim for _, claim in nodes.values()]
    assert len({claim.resources for claim in claims}) == TEMPLATES
    assert {(claim.choice.policy, claim.choice.plugins) for claim in claims} == {("binpack", ("nodeorder", "binpack"))}


@pytest.mark.system
def test_a_small_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEVICESHARE_RUN_DIR", str(tmp_path))
    options = ["--nodes", "3", "--devices", "2", "--pods", "20", "--json"]
    done = subprocess.run([*COMMAND, *options], capture_output=True, text=True, timeout=350)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert list(shown["services"]) == ["inventory", "placement", "binder", "metrics"]
    for one in shown["services"].values():
        assert 0 < one["cpu_seconds"] < 60
        assert 10 < one["memory_mib"] <= one["peak_memory_mib"] < 1000


@pytest.mark.system
def test_more_pods_than_fit_are_an_error() -> None:
    done = subprocess.run([*COMMAND, "--nodes", "1", "--devices", "1", "--pods", "11"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "room for 10 pods" in done.stderr
