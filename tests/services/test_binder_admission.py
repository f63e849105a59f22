"""The binder signs the admission of PodGroups, and inventory trusts no phase without the signature."""

import json

import pytest
from deviceshare.model import ADMISSION, ADMITTED, REJECTED, Explanation, admission_terms
from deviceshare.objects import decode_podgroup
from deviceshare_binder.core.commands import Annotate, SetStatus
from deviceshare_binder.core.groups import Groups
from deviceshare_binder.core.views import PodGroupView
from msgspec.structs import replace

KEYS = (b"a key of at least 16 bytes", b"another of at least 16 bytes")
AMOUNTS = {"volcano.sh/vgpu-memory": 120}
TERMS = admission_terms("q", AMOUNTS)


def raw(phase="Inqueue", signature="", uid="g", queue="q", memory="120"):
    annotations = {ADMISSION: signature} if signature else {}
    metadata = {"name": "gang", "namespace": "ns", "uid": uid, "annotations": annotations}
    spec = {"queue": queue, "minResources": {"volcano.sh/vgpu-memory": memory}}
    return json.dumps({"metadata": metadata, "spec": spec, "status": {"phase": phase}}).encode()


def decided(decision=ADMITTED, uid="g"):
    terms = TERMS if decision == ADMITTED else ""
    return Explanation(
        uid=uid, namespace="ns", name="gang", group="ns/gang", at=1.0, decision=decision, message="m", admission=terms
    )


def written(keys=KEYS, admitted=False, **explanation):
    groups = Groups(keys)
    groups.group("ns/gang", PodGroupView(key="ns/gang", uid="g", queue="q", phase="Pending", admitted=admitted))
    groups.decided(decided(**explanation))
    return [each for each in groups.take(10) if isinstance(each, Annotate)]


def test_an_admitted_group_is_signed_once_and_the_signature_counts():
    groups = Groups(KEYS)
    groups.group("ns/gang", PodGroupView(key="ns/gang", uid="g", queue="q", phase="Pending"))
    groups.decided(decided())
    annotate, status = groups.take(10)
    assert isinstance(annotate, Annotate)
    assert isinstance(status, SetStatus)
    assert dict(status.status)["phase"] == "Inqueue"
    assert (annotate.kind, annotate.namespace, annotate.name, annotate.uid) == ("PodGroup", "ns", "gang", "g")
    signature = annotate.annotations[ADMISSION]
    assert decode_podgroup(raw(signature=signature), KEYS).admitted
    assert decode_podgroup(raw(signature=signature), tuple(reversed(KEYS))).admitted, "the keys are rotated"
    groups.group("ns/gang", PodGroupView(key="ns/gang", uid="g", queue="q", phase="Inqueue", admitted=True))
    assert not [each for each in groups.take(10) if isinstance(each, Annotate)]


def test_the_number_of_writes_at_once_includes_signatures():
    groups = Groups(KEYS)
    for number in range(2):
        key = f"ns/g{number}"
        groups.group(key, PodGroupView(key=key, uid=key, queue="q", phase="Pending"))
        groups.decided(replace(decided(uid=key), name=f"g{number}", group=key))
    rounds = [groups.take(1) for _ in range(4)]
    assert [[type(each) for each in found] for found in rounds] == [[Annotate], [SetStatus]] * 2
    assert [found[0].name for found in rounds] == ["g0", "g0", "g1", "g1"]


@pytest.mark.parametrize(
    "changed", [{"uid": "h"}, {"queue": "r"}, {"memory": "121"}, {"phase": "Pending"}, {"signature": "é"}]
)
def test_the_signature_is_of_one_group_and_its_terms(changed):
    (annotate,) = written()
    fields = {"signature": annotate.annotations[ADMISSION]} | changed
    assert not decode_podgroup(raw(**fields), KEYS).admitted
    assert not decode_podgroup(raw(**fields), KEYS[1:]).admitted


@pytest.mark.parametrize("case", [{"keys": ()}, {"decision": REJECTED}, {"uid": "before"}, {"admitted": True}], ids=str)
def test_nothing_else_is_signed(case):
    assert written(**case) == []


def test_without_keys_a_phase_counts_as_it_is():
    assert decode_podgroup(raw()).admitted
    assert not decode_podgroup(raw(), KEYS).admitted
