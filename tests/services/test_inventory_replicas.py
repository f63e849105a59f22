"""A replica of inventory that writes all the time, and a newcomer."""

from deviceshare_bus.cores.core import Now, PutLatest, Write
from deviceshare_bus.cores.division import Division, FenceReceived, LeaseReceived
from deviceshare_bus.messages.leases import NAMING, PERIOD, Fence, Lease
from deviceshare_bus.messages.subjects import Stream
from deviceshare_cluster.interface import Listed
from deviceshare_inventory.core import InventoryCore
from support.inventory import OURS, Bus, Driver, execute, node


def division(instance):
    return Division(Stream.CLUSTER, "inventory", instance, f"{instance}-1")


def ranked():
    """Return two names of processes, of which the first one owns CLUSTER."""
    other = division("other")
    other.handle(LeaseReceived(Lease(service="inventory", member="one-1", instance="one")), Now(0.0, 0.0))
    return ("one", "other") if other.level("cluster") else ("other", "one")


def test_a_replica_that_always_writes_names_a_newcomer_that_owns_nothing():
    first, second = ranked()
    writer, bus, own, newcomer = Driver(), Bus(), division(first), division(second)
    writer.core = InventoryCore(OURS, division=own)
    messages = []  # leases and fences
    received = {own: 0, newcomer: 0}

    def receive(replica, handle):
        while received[replica] < len(messages):
            message = messages[received[replica]]
            received[replica] += 1
            handle(LeaseReceived(message) if isinstance(message, Lease) else FenceReceived(message))

    def put(commands):
        messages.extend(
            one.message for one in commands if isinstance(one, PutLatest) and one.subject != "cluster.synced"
        )

    def write(in_flight):
        """Let the core act while these writes are in flight; return those that are in flight then."""
        writer.wait(0.25)
        receive(own, writer.handle)
        commands = writer.take()
        put(commands)
        for one in in_flight:
            execute(writer, bus, one)
        return [one for one in commands if isinstance(one, Write)]

    writer.load_all(bus)
    writer.begin_list()
    writer.deliver([node(), Listed(1)])
    in_flight = []
    for _ in range(8):
        in_flight = write(in_flight)
    assert own.owns("cluster")
    for number in range(2, int((NAMING + 5) * PERIOD / 0.25)):
        writer.deliver([node(f"n{number % 2}", number, allocatable={"cpu": str(number)})])
        in_flight = write(in_flight)
        for _ in range(2):
            receive(newcomer, lambda event: newcomer.handle(event, writer.now))
            put(newcomer.tick(writer.now, idle=True, active=True))
        assert in_flight or number < 10
    assert not [one for one in messages if isinstance(one, Fence)]
    assert own.owns("cluster")
    assert not newcomer.owns("cluster")
    assert newcomer.obstacle == ""
    assert newcomer.steady
