"""Policies on cards with partitions: what the runs place, checked without the product's code, and the command."""

import json
from collections import Counter
from functools import cache

import pytest
from deviceshare_cli.main import app
from deviceshare_lab.studies.partitions.arrivals import DISTRIBUTIONS, MEASURED, WARM_UP, draw, weights
from deviceshare_lab.studies.partitions.clusters import CLUSTERS, MIG, OPENB_SHARES, VNPU
from deviceshare_lab.studies.partitions.product import PERCENT, AllocatorPlacer, DefragmentingPlacer
from deviceshare_lab.studies.partitions.run import POLICIES, Result, Task
from deviceshare_lab.studies.partitions.run import run as run_once
from typer.testing import CliRunner

GROUPS = {
    "A30": {"group1": [6] * 4, "group2": [12] * 2, "group3": [24]},
    "A100": {"group1": [5] * 7, "group2": [10, 10, 10, 5], "group3": [20, 20], "group4": [40]},
    "H100": {"group1": [10] * 7, "group2": [20, 20, 20, 10], "group3": [40, 40], "group4": [80]},
}
"""GiB of the instances of each group of NVIDIA's models, as the device plugin's ConfigMap has them."""
CHIPS = {
    "Ascend310P": {"vir01": (3072, 1, 1), "vir02": (6144, 2, 2), "vir04": (12288, 4, 4), "": (21527, 8, 7)},
    "Ascend910B3": {"vir05_1c_16g": (16384, 5, 1), "vir10_3c_32g": (32768, 10, 3), "": (65536, 20, 7)},
}


@cache
def run(task: Task) -> Result:
    """Run a policy; tests that compare with the same run share it."""
    return run_once(task)


class Checked:
    """Repeats each placement in a model of the cards."""

    def take(self, pod, profile, placement):
        super().take(pod, profile, placement)
        ((device,),) = (grant.devices for grant in placement.grants)
        self.on.setdefault(device.id, {})[pod] = device.detail
        self.check(device.id)

    def leave(self, pod):
        super().leave(pod)
        for card in [card for card, pods in self.on.items() if pod in pods]:
            del self.on[card][pod]

    def place(self, pod, profile):
        placed = super().place(pod, profile)
        if not placed:
            asked = self.profiles[profile]
            assert not any(self.fits(card, asked) for card in self.types)
        return placed

    def prepare(self, cluster, seed):
        self.on = {}
        self.profiles = cluster.profiles
        self.types = {card.id: card.type for node in cluster.nodes(seed) for card in node.cards}
        return self

    def groups(self, card):
        return next((groups for model, groups in GROUPS.items() if model in self.types[card]), None)

    def check(self, card):
        details = list(self.on[card].values())
        if (groups := self.groups(card)) is None:
            assert all(amount >= 0 for amount in self.free(card))
            return
        assert len({detail.split("-")[0] for detail in details}) == 1, "one geometry"
        assert len(set(details)) == len(details), "an instance has one pod"
        group, *_ = details[0].split("-")
        assert all(int(detail.split("-")[1]) < len(groups[group]) for detail in details)

    def free(self, card):
        templates = CHIPS[self.types[card]]
        taken = [templates[detail.partition("/")[2]] for detail in self.on.get(card, {}).values()]
        return [whole - sum(each[at] for each in taken) for at, whole in enumerate(templates[""])]

    def fits(self, card, asked):
        groups = self.groups(card)
        if groups is None:
            if self.types[card] not in asked.resource:
                return False
            needed = next(each for each in CHIPS[self.types[card]].values() if each[0] >= asked.memory)
            return all(free >= amount for free, amount in zip(self.free(card), needed, strict=True))
        if "vgpu" not in asked.resource:
            return False
        details = set(self.on.get(card, {}).values())
        of_use = {detail.split("-")[0] for detail in details} or set(groups)
        return any(
            size * 1024 >= asked.memory and f"{group}-{at}" not in details
            for group in of_use
            for at, size in enumerate(groups[group])
        )


class CheckedPlacer(Checked, AllocatorPlacer):
    pass


class CheckedMover(Checked, DefragmentingPlacer):
    pass


def play(placer, cluster, distribution, seed, most=900):
    """Place the first arrivals, and end pods in time."""
    ends = []
    for pod, arrival in enumerate(draw(cluster, distribution, 1.4, seed)[:most]):
        for each in [each for each in ends if each[0] <= arrival.at]:
            ends.remove(each)
            placer.leave(each[1])
        if placer.place(pod, arrival.profile):
            ends.append((arrival.at + arrival.lifetime, pod))
    return placer


@pytest.mark.parametrize("distribution", ["uniform", "skewed-small"])
@pytest.mark.parametrize("policy", ["fragmentation", "binpack", "spread", ""])
@pytest.mark.parametrize("cluster", [MIG, VNPU], ids=["mig", "vnpu"])
def test_instances_never_overlap_and_no_pod_that_fits_is_rejected(cluster, policy, distribution):
    placer = CheckedPlacer(cluster, 3, policy, first_fit=not policy).prepare(cluster, 3)
    play(placer, cluster, distribution, 3)
    assert len(placer.placed) > 50


def test_at_most_one_percent_of_the_pods_are_moved():
    placer = play(CheckedMover(MIG, 3).prepare(MIG, 3), MIG, "skewed-small", 3)
    assert 0 < placer.moved <= 900 / PERCENT


@pytest.mark.parametrize("policy", ["binpack", "fragmentation"])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_chips_are_chosen_as_best_fit_does(distribution, policy):
    # Independent implementations of one rule: the fullest chip, of equal ones the first.
    results = [run(Task("vnpu", distribution, 1.25, each, 7)) for each in (policy, "bestfit")]
    assert results[0].placed == results[1].placed
    assert results[0].arrived == results[1].arrived


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_fragmentation_accepts_as_many_pods_as_the_better_best_fit_on_mig_cards(distribution):
    ours, best_fit, by_instance = (
        sum(run(Task("mig", distribution, 1.25, policy, seed)).acceptance for seed in (1, 2))
        for policy in ("fragmentation", "bestfit", "bestfit-instance")
    )
    assert ours > 0.99 * by_instance
    assert ours > {"uniform": 1.1, "skewed-small": 1.15, "skewed-big": 1.04, "openb": 1.02}[distribution] * best_fit


PRICES = {
    "uniform": ((4, 7, 8, 14, 14, 28, 28, 56), 56),
    "skewed-small": ((8, 14, 14, 28, 28, 49, 49, 49), 49),
    "skewed-big": ((4, 7, 8, 14, 14, 28, 28, 56), 56),
    "openb": ((1, 1, 2, 2, 4, 4, 8, 8), 8),
}
"""The price of an instance for each of the sizes 5 to 80 GiB, in parts of what a placed pod is worth."""


def bound(distribution, load):
    """Return the most pods that any policy can place, by prices, as a share of all.

    A pod is worth 1, and rents an instance. What all cards can earn at most, plus what placed pods gain beyond their
    rent, is no less than the number of placed pods, whatever the prices are.
    """
    prices, worth = PRICES[distribution]
    sizes = [profile.memory // 1024 for profile in MIG.profiles]

    def price(size):
        return max(each for each, least in zip(prices, sizes, strict=True) if least <= size) / worth

    earned = {
        model: max(sum(price(size) for size in group) for group in groups.values()) for model, groups in GROUPS.items()
    }
    rents = sum(
        each.nodes * each.cards * next(of for model, of in earned.items() if model in each.type)
        for each in MIG.hardware
    )
    share = weights(MIG, distribution)
    pods = load * MIG.memory / 1024 / sum(each * size for each, size in zip(share, sizes, strict=True))
    gains = sum(each * max(1 - price(size), 0) for each, size in zip(share, sizes, strict=True))
    return rents / pods + gains


@pytest.mark.parametrize(
    ("distribution", "percent"), [("uniform", 91.3), ("skewed-small", 88.8), ("skewed-big", 89.4), ("openb", 81.0)]
)
def test_no_policy_can_place_more_pods_than_prices_of_instances_allow(distribution, percent):
    most = bound(distribution, 1.25)
    assert 100 * most == pytest.approx(percent, abs=0.05)
    # The bound is one of long runs: those of two seeds may have some pods more.
    placed = [run(Task("mig", distribution, 1.25, "bestfit-instance", seed)).acceptance for seed in (1, 2)]
    assert sum(placed) / 2 < most + 0.01


@pytest.mark.parametrize("cluster", CLUSTERS.values(), ids=CLUSTERS)
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_arrivals_request_the_load_in_the_given_proportions(cluster, distribution):
    arrivals = [each for seed in range(4) for each in draw(cluster, distribution, 1.25, seed)]
    work = sum(each.lifetime * cluster.profiles[each.profile].memory for each in arrivals)
    assert work / (cluster.memory * (WARM_UP + MEASURED) * 4) == pytest.approx(1.25, rel=0.05)
    counts = Counter(each.profile for each in arrivals)
    for profile, weight in enumerate(weights(cluster, distribution)):
        assert counts[profile] / len(arrivals) == pytest.approx(weight, abs=0.02)
    assert draw(cluster, distribution, 1.25, 1) == draw(cluster, distribution, 1.25, 1)


def test_skewed_profiles_prefer_the_small_or_the_large_ones():
    small, big = (weights(MIG, f"skewed-{word}") for word in ("small", "big"))
    assert small == sorted(small, reverse=True)
    assert small == big[::-1]
    assert sum(OPENB_SHARES) == 7064


def test_the_command_prints_tables_json_and_plots(tmp_path):
    options = ["lab", "study", "partitions", "--cluster", "vnpu", "--profiles", "openb", "--load", "0.5,1"]
    options += ["--policy", "binpack,bestfit", "--seeds", "1", "--jobs", "1", "--defragment"]
    result = CliRunner().invoke(app, [*options, "--json", "--plot", str(tmp_path)])
    assert result.exit_code == 0, result.output
    runs = json.loads(result.stdout)["runs"]
    assert [(each["policy"], each["load"]) for each in runs] == [
        (policy, load) for load in (0.5, 1.0) for policy in ("binpack", "bestfit", "fragmentation+moves")
    ]
    for each in runs:
        assert sum(of["placed"] for of in each["by_profile"].values()) == each["placed"] <= each["arrived"]
    assert (tmp_path / "partitions-vnpu-openb.svg").exists()
    text = CliRunner().invoke(app, options).stdout
    assert "fragmentation+moves" in text
    assert "910B3 whole" in text


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--cluster", "gpu", "--cluster: 'gpu': must be one of mig, vnpu, or all"),
        ("--profiles", "x", "--profiles: 'x': must be one of uniform, skewed-small, skewed-big, openb, or all"),
        ("--policy", "x", f"--policy: 'x': must be one of {', '.join(POLICIES)}, or all"),
        ("--load", "1,x", "--load: 'x': must be numbers from 0.1 to 5"),
        ("--load", "nan", "--load: 'nan': must be numbers from 0.1 to 5"),
        ("--load", ",".join(["1"] * 21), "must be at most 20 loads"),
        ("--seeds", "b", "--seeds: 'b': must be a whole number or a range such as 42..51"),
    ],
)
def test_a_wrong_option_is_named(option, value, message):
    result = CliRunner().invoke(app, ["lab", "study", "partitions", option, value])
    assert result.exit_code == 1
    assert message in str(result.exception)
