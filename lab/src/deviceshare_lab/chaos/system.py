"""A simulated system: bus, API server, node agents, services, checkers, and the record of what happens."""

import asyncio
import random
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from deviceshare_bus.streams.creation import make_streams
from deviceshare_cluster.interface import Object
from nats.errors import Error as NatsError

from deviceshare_lab.chaos.checkers import Checkers
from deviceshare_lab.chaos.history import History
from deviceshare_lab.chaos.processes import Process
from deviceshare_lab.clusters import manifests
from deviceshare_lab.world.apiserver import ApiServer, Seen
from deviceshare_lab.world.budgets import SimulatedBudgets
from deviceshare_lab.world.jetstream import Stored, Stream
from deviceshare_lab.world.kube_client import Frontend
from deviceshare_lab.world.nats_client import SimulatedConnection
from deviceshare_lab.world.nats_server import Server
from deviceshare_lab.world.node_agents import NodeAgents
from deviceshare_lab.world.virtual_time import WALL


class System:
    """Everything in a history, in a running virtual loop.

    ``over``: the history has ended; nothing is started or checked any more.
    """

    def __init__(
        self, seed: str, nodes: Mapping[str, str], replicas: Mapping[str, int], *, preempts: bool = False
    ) -> None:
        """Make a cluster with these nodes, each with its family, and the replicas of each service."""
        self._seed = seed
        self._loop = asyncio.get_running_loop()
        self.history = History()
        self.over = False
        self.api = ApiServer(lambda: WALL + self._loop.time())
        self.frontend = Frontend(self.api, self.chance("api"))
        self.bus = Server(self.chance("bus"), self._written)
        self.checkers = Checkers(self.api, self.bus, self._loop.time, preempts=preempts)
        self.api.observers.append(self._object_changed)
        self.frontend.on_bind = self.checkers.bind_requested
        self.frontend.on_evict = self.checkers.evict_requested
        self.agents = NodeAgents(self.api, self.chance("agents"))
        self.budgets = SimulatedBudgets(self.api)
        self.agents.excused = self.checkers.pods.exempt
        self._actions = ("enqueue", "allocate", *(["preempt"] if preempts else []), "backfill")
        self.families = dict(nodes)
        self._nodes_made = 0
        self._tasks: dict[asyncio.Task[None], None] = {}
        objects = [self._node(name, family) for name, family in nodes.items()]
        for obj in (*manifests.configuration(objects, actions=self._actions), *objects):
            self.api.create(obj)
        self.processes = [
            Process(self, service, number, self.chance(f"{service}/{number}"))
            for service, count in replicas.items()
            for number in range(count)
        ]

    def chance(self, purpose: str) -> random.Random:
        """Return a source of randomness of its own for a purpose."""
        return random.Random(f"{self._seed}/{purpose}")

    def _node(self, name: str, family: str) -> Object:
        self._nodes_made += 1
        return manifests.node(name, family, self._nodes_made)

    def add_node(self, name: str, family: str) -> None:
        """Add a node, or put back one that was removed."""
        if self.api.peek("Node", "", name) is None:
            self.families[name] = family
            self.api.create(self._node(name, family))
            self.configure()

    def configure(self, broken: int | None = None) -> None:
        """Write the ConfigMaps of the scheduler (0), of devices (1), and of ClusterD about the chips of the nodes.

        ``broken``: the one that cannot be used.
        """
        for number, config in enumerate(manifests.configuration(list(self.api.objects("Node")), actions=self._actions)):
            data = (manifests.broken(config) if number == broken else config)["data"]

            def change(found: Object, data: object = data) -> bool:
                changed = bool(found["data"] != data)
                found["data"] = data
                return changed

            key = "ConfigMap", config["metadata"]["namespace"], config["metadata"]["name"]
            self.api.update(key, change, "clusterd")

    def note(self, text: str) -> None:
        """Add a line to the history."""
        if not self.over:
            self.history.add(self._loop.time(), text)

    def crashed(self, name: str, error: BaseException) -> None:
        """A process has ended with an error."""
        inner = error
        while isinstance(inner, BaseExceptionGroup):
            inner = inner.exceptions[0]
        self.note(f"{name} failed: {inner!r}")
        self.checkers.report("no service fails", f"{name}: {inner!r}")

    def _object_changed(self, seen: Seen) -> None:
        if not self.over:
            self.history.object_changed(self._loop.time(), seen)
            self.checkers.object_changed(seen)

    def _written(self, stream: Stream, messages: Sequence[Stored], writer: str) -> None:
        if not self.over:
            self.history.written(self._loop.time(), stream, messages, writer)
            self.checkers.written(stream, messages, writer)

    async def set_up(self) -> None:
        """Create the missing streams, as the set-up step does."""
        connection = SimulatedConnection(self.bus, "setup", self.chance("setup"))
        connection.listen(connection.requests.subject, connection.requests.answered)
        while True:
            try:
                await make_streams(connection)
                break
            except (NatsError, TimeoutError, OSError):
                await asyncio.sleep(1.0)
        await connection.close()

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task of the simulation itself."""
        task = self._loop.create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._done)

    def _done(self, task: "asyncio.Task[None]") -> None:
        self._tasks.pop(task, None)
        if not self.over and not task.cancelled() and (error := task.exception()) is not None:
            self.crashed("the simulation", error)

    def silence_consumers(self, share: float) -> None:
        """Let consumers of the bus fall silent."""
        self.note(f"{self.bus.silence(share)} consumers are silent")

    def silence_watches(self, share: float) -> None:
        """Let watches of the API server fall silent."""
        self.note(f"{self.frontend.silence_watches(share)} watches are silent")

    def break_watches(self) -> None:
        """Break all watches of the API server."""
        self.note(f"{self.frontend.break_watches()} watches broke")

    def process(self, name: str) -> Process | None:
        """Return a process by its name, such as ``binder/0``."""
        return next((process for process in self.processes if process.name == name), None)

    def problems(self) -> list[str]:
        """Return what is not as it must be when nothing happens any more, [] if the system is settled."""
        return self.checkers.unsettled() + self.agents.complaints

    def end(self) -> None:
        """End all processes."""
        self.over = True
        for process in self.processes:
            process.kill()
