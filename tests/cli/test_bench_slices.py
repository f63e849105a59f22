"""`deviceshare lab bench allocator --slices` and `deviceshare lab study devices` on small clusters."""

import json

import pytest
from deviceshare_cli.main import app
from deviceshare_lab.studies import devices
from typer.testing import CliRunner


@pytest.mark.parametrize(("kind", "on_node"), [("h100", 8), ("a100-mig", 104)])
def test_claims_are_placed_and_measured(kind: str, on_node: int) -> None:
    done = CliRunner().invoke(
        app, ["lab", "bench", "allocator", "--slices", kind, "--nodes", "40", "--pods", "200", "--json"]
    )
    assert done.exit_code == 0
    shown = json.loads(done.output)
    assert (shown["devices"], shown["placed"]) == (40 * on_node, 200)


def test_best_fit_uses_more_of_the_cards_than_the_first_device_of_the_emptiest_node() -> None:
    """It uses at least 3 points more on the even and large mixes, and never less."""
    runs = [devices.Task(mix, policy, 0, 4, 1.3) for mix in devices.MIXES for policy in (devices.KUBE, "binpack")]
    found = {(each["mix"], each["policy"]): each for each in devices.summarized([devices.run(each) for each in runs])}
    for mix, least in (("small", 0.0), ("even", 3.0), ("large", 3.0)):
        assert found[mix, "binpack"]["points"] > least, mix
        assert found[mix, "binpack"]["used_pct"] <= 100.0


def test_the_study_prints_all_policies() -> None:
    done = CliRunner().invoke(
        app, ["lab", "study", "devices", "--mix", "even", "--seeds", "1", "--nodes", "1", "--jobs", "1", "--json"]
    )
    assert done.exit_code == 0
    assert [each["policy"] for each in json.loads(done.output)] == list(devices.NAMES)
