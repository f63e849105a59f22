"""What device families read of pods becomes part of a request, also that of families that are registered later."""

from deviceshare.families import register
from deviceshare.families.vgpu.software import Mps
from deviceshare.objects.pod_request import annotations_read, labels_read
from support.families import restored_families


class Acme(Mps):
    pod_annotations = frozenset({"acme.example/card-*-use"})
    pod_labels = frozenset({"acme.example/level"})

    def __init__(self) -> None:
        super().__init__()
        self.name = "acme"


def test_a_family_that_is_registered_later_reads_annotations_and_labels() -> None:
    annotations, labels = {"acme.example/card-a-use": "1", "other": "2"}, {"acme.example/level": "high", "app": "x"}
    assert (annotations_read(annotations), labels_read(labels)) == ((), ())
    with restored_families():
        register(Acme())
        assert annotations_read(annotations) == (("acme.example/card-a-use", "1"),)
        assert labels_read(labels) == (("acme.example/level", "high"),)
    assert (annotations_read(annotations), labels_read(labels)) == ((), ())
