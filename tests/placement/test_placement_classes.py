"""Equal requests share one object while a pod with the request exists."""

import gc
import weakref

from support.builders import card, node, pod, vgpu
from support.played import Played


def test_requests_are_kept_no_longer_than_their_pods() -> None:
    one = Played()
    one.put(node("a", [card(0)]))
    for name in ("p", "q"):
        one.put(pod(name, vgpu(1, 7777), ended=True))
    records = one.core.scheduler.cluster.pods
    assert records["uid-p"].pod_class is records["uid-q"].pod_class
    assert records["uid-p"].fact.ask is records["uid-q"].fact.ask
    gone = weakref.ref(records["uid-p"].pod_class)
    del records
    for name in ("p", "q"):
        one.gone(pod(name, vgpu(1, 7777), ended=True))
    gc.collect()
    assert gone() is None
