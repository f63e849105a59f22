"""A run of chaos: rounds of faults during a workload; after each round the system must converge."""

import asyncio
import logging
import random
import signal
from contextlib import AsyncExitStack

from deviceshare_bus.connection import connect
from deviceshare_bus.tasks import end
from deviceshare_cluster.local import LocalCluster

from deviceshare_cli.chaos import manifests
from deviceshare_cli.chaos.real.bus_faults import BusFaults
from deviceshare_cli.chaos.real.checker.judge import Expected, Judge
from deviceshare_cli.chaos.real.faults import FAULTS, Context
from deviceshare_cli.chaos.real.hostile import Hostile
from deviceshare_cli.chaos.real.options import Options
from deviceshare_cli.chaos.real.report import Reporter
from deviceshare_cli.chaos.real.system import System, running
from deviceshare_cli.chaos.real.workload import MAY_WAIT, Workload
from deviceshare_cli.errors import CommandError

log = logging.getLogger("deviceshare.chaos")

FAULTS_OF_ROUND = 5
FAULTS_OF_LONG_ROUND = 12
"""Faults of a round, at most; more if faults may last longer than :data:`LONG` seconds."""
LONG = 10.0
AFTER = 0.5
"""Seconds for which the workload goes on when the faults of a round have ended."""
SPREAD = 3.0
"""Seconds in which the faults of a round begin, at most."""
CRASH = "no service ends by itself"


async def chaos(options: Options) -> int:
    """Run until enough faults were injected, a rule is broken, or Ctrl-C; return the exit status."""
    main = asyncio.current_task()
    assert main is not None
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(signum, main.cancel)
    reporter = Reporter(options.seed, options.seconds, options.faults)
    try:
        await _run(options, reporter)
    except asyncio.CancelledError:
        reporter.line("interrupted")
    except TimeoutError:
        raise CommandError("a nats-server did not answer") from None
    finally:
        for signum in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(signum)
        reporter.end()
    return 1 if reporter.violations else 0


async def _run(options: Options, reporter: Reporter) -> None:
    chance = random.Random(options.seed)
    async with AsyncExitStack() as stack:
        system = await stack.enter_async_context(running(options, chance, lambda: reporter.violations > 0))
        bus = await connect(system.bus_url, "chaos-faults")
        stack.push_async_callback(bus.close)
        clusters = [
            await stack.enter_async_context(LocalCluster(system.cluster_url, name=f"chaos-{name}"))
            for name in ("workload", "checker", "faults")
        ]
        expected = Expected((manifests.SCHEDULER,), MAY_WAIT, manifests.DEVICE_CONFIG)
        judge = Judge(bus, clusters[1], expected)
        judge.start()
        stack.push_async_callback(judge.stop)
        workload = Workload(clusters[0], random.Random(chance.random()), options.nodes)
        context = Context(
            system,
            clusters[2],
            BusFaults(system, bus, judge, random.Random(chance.random())),
            Hostile(bus, random.Random(chance.random()), judge.claims),
            judge.bindings,
            random.Random(chance.random()),
        )
        await Rounds(options, reporter, system, judge, workload, context).run()


class Rounds:
    """The rounds of a run."""

    def __init__(
        self,
        options: Options,
        reporter: Reporter,
        system: System,
        judge: Judge,
        workload: Workload,
        context: Context,
    ) -> None:
        self._options, self._reporter, self._system = options, reporter, system
        self._judge, self._workload, self._context = judge, workload, context
        self._chance = random.Random(options.seed)
        self._faults: list[str] = []

    async def run(self) -> None:
        """Play rounds until enough faults were injected or a rule is broken."""
        self._reporter.line(f"seed {self._options.seed}, logs in {self._system.directory}")
        await self._workload.fill()
        await self._converge("the start")
        while not self._judge.violations and not self._reporter.enough:
            self._faults = []
            if self._chance.random() < 0.5:
                await self._context.bus.take_snapshot()
            await self._round()
            await self._converge(f"{len(self._faults)} faults")
        if self._judge.violations:
            self._system.dump_core_logs()
            await asyncio.sleep(1.0)
            self._reporter.broken(self._judge.violations, self._faults, self._system.directory)

    async def _round(self) -> None:
        """Inject the faults of a round, at once or one after the other, during the workload."""
        count = self._chance.randint(1, FAULTS_OF_LONG_ROUND if self._options.longest > LONG else FAULTS_OF_ROUND)
        if self._options.faults is not None:
            count = min(count, self._options.faults - self._reporter.count)
        kinds = self._options.kinds
        chosen = self._chance.choices(kinds, [FAULTS[kind].weight for kind in kinds], k=count)
        spread = self._chance.uniform(0.0, min(SPREAD, self._options.longest))
        over = asyncio.Event()
        stirring = asyncio.create_task(self._workload.stir(over))
        tasks = [asyncio.create_task(self._inject(kind, self._chance.uniform(0.0, spread))) for kind in chosen]
        try:
            await asyncio.gather(*tasks)
            await asyncio.sleep(AFTER)
            over.set()
            await stirring
        finally:
            await end(stirring, *tasks)
        await self._workload.restore()

    async def _inject(self, kind: str, after: float) -> None:
        await asyncio.sleep(after)
        fault, longest = FAULTS[kind], self._options.longest
        seconds = self._chance.uniform(longest / 6, longest) if fault.lasts else 0.0
        number = self._reporter.fault(kind)
        hit = await fault.act(self._context, seconds)
        text = f"#{number} {kind} {hit}".rstrip() + (f" for {seconds:.1f} s" if fault.lasts else "")
        self._faults.append(text)
        self._reporter.line(text)

    async def _converge(self, what: str) -> None:
        seconds = await self._judge.converged(self._options.patience, self._workload.collect)
        for crash in self._system.crashes:
            self._judge.report(CRASH, crash)
        self._system.crashes.clear()
        if not self._judge.violations:
            bound = len(self._judge.bindings.bound)
            self._reporter.line(f"converged {seconds:.1f} s after {what}: {bound} pods bound")
