"""`deviceshare top`: totals of card models."""

from deviceshare_cli.whatif.top import _models, totals
from deviceshare_metrics import api

NODE = api.Node(
    name="n1", ready=True, unschedulable=False, allocatable={}, used={}, pods=0, cards=0, problems=()
)  # fmt: skip


def device(index, mode="hami-core", **more):
    amounts = {
        "memory_total": 16000, "memory_used": 0, "cores_total": 100, "cores_used": 0, "slots_total": 10,
        "slots_used": 0, "largest_free": 16000,
    }  # fmt: skip
    fields = {"node": "n1", "id": f"GPU-{index}", "index": index, "type": "T4", "healthy": True, "pods": ()}
    return api.Device(**{**amounts, **fields, "mode": mode, **more})


def test_what_is_free_is_what_a_pod_could_get():
    full = device(0, memory_used=1000, cores_used=100, slots_used=1, largest_free=0)
    part = device(1, memory_used=4000, cores_used=10, slots_used=1, largest_free=12000)
    (found,) = totals([full, part, device(2)], [NODE])
    assert (found.whole_cards_free, found.free_memory, found.largest_free_memory) == (1, 28000, 16000)
    assert (found.largest_free_cores, found.fragmented) == (100, round(12000 / 28000, 4))
    (found,) = totals([full], [NODE])
    assert (found.largest_free_memory, found.largest_free_cores, found.fragmented) == (0, 0, 0.0)


def test_a_cordoned_card_is_not_free():
    cordon = api.Cordon(by="alice", reason="", since="")
    (found,) = totals([device(0, cordon=cordon, largest_free=0), device(1)], [NODE])
    assert (found.cards, found.unavailable, found.whole_cards_free, found.free_memory) == (2, 1, 1, 16000)


def test_a_mig_card_offers_its_largest_instance_and_no_cores():
    card = device(0, "mig", memory_used=12000, cores_total=0, slots_used=2, largest_free=3000)
    found = totals([card], [NODE])
    assert (found[0].largest_free_memory, found[0].largest_free_cores, found[0].fragmented) == (3000, 0, 1.0)
    row = _models(found)[1]
    assert "3000Mi" in row
    assert "cores" not in row


def test_cards_that_count_by_cores_are_fragmented_by_cores():
    chips = [
        device(
            at, "mindcluster", memory_total=0, cores_total=8, cores_used=used, slots_used=bool(used), largest_free=free
        )
        for at, (used, free) in enumerate([(0, 8), (4, 4), (8, 0)])
    ]
    (found,) = totals(chips, [NODE])
    assert (found.whole_cards_free, found.largest_free_cores, found.fragmented) == (1, 8, round(4 / 12, 4))
