"""Volumes in placement: claims decide which nodes a pod may use, waiting pods follow changes of their claims."""

import pytest
from deviceshare.model import (
    HOSTNAME,
    Claim,
    ConfigFact,
    NodeFact,
    PodFact,
    PodVolume,
    Requirement,
    VolumeClaimFact,
    VolumeFact,
    VolumeLimitsFact,
    VolumeUse,
)
from deviceshare_bus.messages import subjects
from deviceshare_placement.core.claims import INTER_POD
from msgspec.structs import replace
from support.builders import ask, container, node, pod
from support.played import Played

CPU = ask(container(cpu=100))
DRIVER = "csi.example.com"
ONCE = ("ReadWriteOncePod",)


def place(name: str, **labels: str) -> NodeFact:
    return node(name, labels={HOSTNAME: name, **labels})


def using(name: str, *claims: str, **more) -> PodFact:
    volumes = tuple(PodVolume(f"v{number}", claim) for number, claim in enumerate(claims))
    return pod(
        name, replace(CPU, volumes=volumes, unsupported=tuple(f"spec.volumes[{each.name}]" for each in volumes)), **more
    )


def bound(name: str, volume: str = "", **more) -> VolumeClaimFact:
    return VolumeClaimFact(key=f"ns/{name}", volume=volume or f"pv-{name}", bound=True, **more)


def local(name: str, host: str) -> VolumeFact:
    return VolumeFact(name=name, node_terms=((Requirement(HOSTNAME, "In", (host,)),),))


def why(core: Played) -> str:
    messages = core.tick().messages or core.tick(10.0).messages  # a later diagnosis is delayed
    (message,) = messages
    return message


def test_a_pod_goes_where_its_volume_is() -> None:
    core = Played(place("a"), place("b"), place("c"))
    core.put(bound("data"), local("pv-data", "b"), using("p", "data"))
    assert core.settle() == {"p": "b"}


def test_a_pod_waits_for_its_claim_and_its_volume_with_a_reason() -> None:
    core = Played(place("a"), place("b"))
    core.put(using("p", "data"))
    assert 'persistentvolumeclaim "data" not found' in why(core)
    core.put(bound("data"))
    assert 'persistentvolume "pv-data" not found' in why(core)
    core.put(local("pv-data", "b"))
    assert core.settle() == {"p": "b"}


def test_a_claim_for_one_pod_is_used_by_one_pod_at_a_time() -> None:
    core = Played(place("a"), place("b"))
    core.put(bound("data", access_modes=ONCE), VolumeFact(name="pv-data"))
    for name in ("one", "two"):
        core.put(using(name, "data"))
    out = core.tick()
    assert [claim.name for claim in out.claims] == ["one"]
    assert out.claims[0].volumes == (VolumeUse("ns/data"),)
    assert any(each.subject == subjects.ledger(INTER_POD) for write in out.writes for each in write.writes)
    core.written(out)
    message = core.tick().messages or out.messages
    assert any("ReadWriteOncePod access mode already in-use by another pod" in each for each in message)
    core.put(using("one", "data", node="a", ended=True))
    assert core.settle() == {"two": "a"}


def test_a_claim_of_another_replica_counts_before_its_pod_is_known() -> None:
    core = Played(place("a"), place("b"))
    core.put(bound("data", access_modes=ONCE), VolumeFact(name="pv-data"), using("mine", "data"))
    theirs = Claim(id="other-1", uid="uid-theirs", namespace="ns", name="theirs", volumes=(VolumeUse("ns/data"),))
    core.ledger("b", 1, theirs)
    assert core.settle() == {}


@pytest.mark.parametrize("first", ["limits", "node"])
def test_a_node_takes_as_many_volumes_as_can_be_attached(first: str) -> None:
    core = Played(place("z"), empty=True)
    limits = [VolumeLimitsFact(name=name, drivers=((DRIVER, most),)) for name, most in (("a", 2), ("b", 1), ("z", 0))]
    core.put(*((*limits, place("a"), place("b")) if first == "limits" else (place("a"), place("b"), *limits)))
    for number in range(4):
        core.put(bound(f"c{number}"), VolumeFact(name=f"pv-c{number}", driver=DRIVER, handle=f"h{number}"))
        core.put(using(f"p{number}", f"c{number}"))
    core.put(using("again", "c0"))
    found = core.settle()
    assert sorted(found.values()) == ["a", "a", "a", "b"]
    assert found["again"] == found["p0"], "a volume is attached once"
    core.put(VolumeLimitsFact(name="z", drivers=((DRIVER, 1),)))
    assert list(core.settle().values()) == ["z"]


def test_pods_without_a_limit_are_not_counted_where_the_plugin_is_off() -> None:
    core = Played(place("a"))
    core.put(using("p", "data"))
    conf = "actions: allocate\ntiers:\n- plugins:\n  - name: predicates\n    enablePredicate: false\n"
    core.put(ConfigFact(name="scheduler", text=conf))
    assert core.settle() == {"p": "a"}


def test_objects_of_storage_wake_only_jobs_that_they_may_help(monkeypatch: pytest.MonkeyPatch) -> None:
    core = Played(node("a", cpu=50))
    core.put(bound("data"), VolumeFact(name="pv-data"), using("with", "data"), using("beside", "third"))
    core.put(bound("third"), VolumeFact(name="pv-third"), pod("without", CPU))
    core.settle()
    dispatcher, decided = core.core.scheduler.cluster.dispatcher, []
    decide_job = type(dispatcher)._decide_job

    def counting(self, jobs, job_class, job, *args, **rest):
        decided.append(job.group.pods[0].name)
        return decide_job(self, jobs, job_class, job, *args, **rest)

    monkeypatch.setattr(type(dispatcher), "_decide_job", counting)
    core.put(bound("other"))
    core.tick()
    assert decided == []
    core.put(bound("data", access_modes=ONCE))
    core.tick()
    assert set(decided) == {"with"}
    decided.clear()
    core.put(VolumeFact(name="pv-data", claim="ns/data"))
    core.tick()
    assert set(decided) == {"with"}
    core.put(VolumeFact(name="free"))
    core.tick()
    assert set(decided) == {"with", "beside"}
    core.put(node("a", cpu=150))
    core.tick()
    assert set(decided) == {"with", "beside", "without"}
