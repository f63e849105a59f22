"""The judge of a run with real processes."""

from typing import Any, cast

import msgspec
from deviceshare_bus.messages.subjects import partition
from deviceshare_bus.wire.connection import Connection
from deviceshare_lab.chaos.real.judge import Expected, Judge
from deviceshare_localcluster import LocalCluster

DEVICES = (("GPU-1", ""),)


def ledger(uid: str, card: str) -> bytes:
    grant = ["main", 0, "hami-core", [[card, 0, 100, 10]]]
    claim = {"id": f"id-{uid}", "uid": uid, "name": uid, "grants": [grant]}
    return msgspec.msgpack.encode({"v": 1, "node": "n1", "claims": [claim]})


def judge() -> Judge:
    return Judge(cast("Connection", None), cast("LocalCluster", None), Expected((), "", ""))


def compare(judge: Judge, *uids: str) -> list[str]:
    judge.watched.bound.bound |= {(uid, f"default/{uid}"): ("n1", DEVICES) for uid in uids}
    cast("Any", judge)._compare_bindings()
    return [violation.rule for violation in judge.violations]


def test_a_binding_without_a_claim_or_with_other_devices_is_a_violation() -> None:
    assert compare(judge(), "a") == ["bindings equal claims"]
    other = judge()
    other.claims.ledger(f"ledger.{partition('n1')}.n1", ledger("a", "GPU-2"))
    assert compare(other, "a") == ["bindings equal claims"]
    equal = judge()
    equal.claims.ledger(f"ledger.{partition('n1')}.n1", ledger("a", "GPU-1"))
    assert compare(equal, "a") == []


def test_a_claim_may_be_superseded_before_it_is_read() -> None:
    """A pod that ends at once, while the reader has no connection: of each subject LEDGER keeps the last message."""
    reading = judge()
    cast("Any", reading)._readers["LEDGER"].missed = 1
    assert compare(reading, "a") == []
    assert compare(reading, "b") == ["bindings equal claims"]
    reading = judge()
    cast("Any", reading)._readers["LEDGER"].missed = 1
    reading.claims.ledger(f"ledger.{partition('n1')}.n1", ledger("a", "GPU-2"))
    assert compare(reading, "a") == ["bindings equal claims"]
