"""What replicas keep of their groups while a fact that moves groups is read by all."""

from deviceshare_bus.cores.core import PutLatest
from deviceshare_bus.messages.leases import PERIOD
from support.builders import MEMORY
from support.placement_replicas import System


def explanations(system: System) -> int:
    sent = [each for replica in system.replicas for each in replica.commands]
    return sum(isinstance(each, PutLatest) and each.subject.startswith("explain") for each in sent)


def test_a_change_of_a_queue_explains_no_pod_again_that_stays_with_its_replica() -> None:
    system = System("p1", "p2")
    system.settle(3 * PERIOD)
    for number in range(60):
        system.create(f"w-{number}", "free", 500)
    system.settle(3.0)
    assert explanations(system) >= 60
    for replica in system.replicas:
        replica.commands.clear()
    system.change_queue("other", guarantee={MEMORY: 1})
    system.settle(3.0)
    assert explanations(system) == 0
    assert all(replica.core.open_work == 0 for replica in system.replicas)
