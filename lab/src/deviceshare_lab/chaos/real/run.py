"""A run of chaos: groups of faults during a workload; after each group the system must settle."""

import asyncio
import logging
import random
import signal
import sys
import time
from contextlib import AsyncExitStack

from deviceshare_bus.wire.tasks import end
from deviceshare_cli.errors import CommandError
from deviceshare_localcluster import LocalCluster

from deviceshare_lab.chaos.real.bus_faults import BusFaults
from deviceshare_lab.chaos.real.faults import FAULTS, Context
from deviceshare_lab.chaos.real.hostile import Hostile
from deviceshare_lab.chaos.real.judge import Expected, Judge
from deviceshare_lab.chaos.real.options import Options
from deviceshare_lab.chaos.real.report import Reporter
from deviceshare_lab.chaos.real.schedule import Planned, Schedule
from deviceshare_lab.chaos.real.system import NoEffect, System, running
from deviceshare_lab.chaos.real.users import STRANGER
from deviceshare_lab.chaos.real.workload import MAY_WAIT, Workload
from deviceshare_lab.clusters import manifests

log = logging.getLogger("deviceshare.chaos")

AFTER = 0.5
"""Seconds for which the workload goes on when the faults of a group have ended."""
LOOK = 0.5
"""Seconds after which a violation ends a group, at most."""
CRASH = "no service ends by itself"
RIGHTS = "no service lacks a right on the bus"


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
        bus, reader = await system.connect("chaos-faults", STRANGER), await system.connect("chaos-checker", "reader")
        stack.push_async_callback(bus.close)
        stack.push_async_callback(reader.close)
        clusters = [
            await stack.enter_async_context(LocalCluster(system.cluster_url, name=f"chaos-{name}"))
            for name in ("workload", "checker", "faults")
        ]
        expected = Expected((manifests.SCHEDULER,), MAY_WAIT, manifests.DEVICE_CONFIG)
        judge = Judge(reader, clusters[1], expected)
        judge.start()
        stack.push_async_callback(judge.stop)
        workload = Workload(clusters[0], random.Random(chance.random()), options.nodes, preempts=options.preempts)
        context = Context(
            system,
            clusters[2],
            BusFaults(system, bus, judge, random.Random(chance.random())),
            Hostile(bus, random.Random(chance.random()), judge.claims),
            judge.watched,
            chance,
            lambda hit: None,
        )
        try:
            await Groups(options, reporter, system, judge, workload, context).run()
        finally:
            reporter.summary(options.kinds, workload.churn, judge.evidence())


class Groups:
    """The groups of faults of a run."""

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
        kinds = {name: FAULTS[name].kind for name in options.kinds}
        self._schedule = Schedule(kinds, options.longest, options.pace, random.Random(self._chance.random()))
        self._faults: list[str] = []
        self._bound = 0

    async def run(self) -> None:
        """Inject groups until there were enough faults or a rule is broken."""
        options, line = self._options, self._reporter.line
        replicas = ", ".join(f"{service} {count}" for service, count in options.replicas.items())
        users = "with" if options.users else "without"
        line(f"seed {options.seed}; replicas: {replicas}; bus {users} users; logs in {self._system.directory}")
        if options.preempts:
            line("pods go for others: only those of lower priority, and only pods that LEDGER has let go are evicted")
        line("checked at every moment: cards, claims, claim ids, devices of bound pods, exits and rights of services")
        line(
            f"checked after each group of faults, within {options.patience:g} s: every pod is bound or has a reason, "
            "and pods, claims, outcomes and explanations agree"
        )
        began = time.monotonic()
        await self._workload.prepare()
        if options.preempts:
            await self._settle(began)
            began = time.monotonic()
        await self._workload.begin()
        await self._settle(began)
        await self._context.bus.take_snapshot()
        while not self._judge.violations and not self._reporter.enough:
            await self._group()
        if self._judge.violations:
            self._system.dump_core_logs()
            await asyncio.sleep(1.0)
            self._reporter.broken(self._judge.violations, self._faults, self._system.directory)

    async def _group(self) -> None:
        """Inject a group of faults during the workload, and wait until the system has settled."""
        reporter, self._faults = self._reporter, []
        if self._chance.random() < 0.5:
            await self._context.bus.take_snapshot()
        most = sys.maxsize if self._options.faults is None else self._options.faults - reporter.count
        planned = self._schedule.group(reporter.elapsed, reporter.count, most)
        over = asyncio.Event()
        stirring = asyncio.create_task(self._workload.stir(over))
        tasks = [asyncio.create_task(self._inject(fault)) for fault in planned]
        try:
            pending = set(tasks)
            while pending:
                done, pending = await asyncio.wait(pending, timeout=LOOK)
                for task in done:
                    task.result()
                if self._judge.violations:
                    return
            await asyncio.sleep(AFTER)
            over.set()
            ended = time.monotonic()
            await stirring
        finally:
            await end(stirring, *tasks)
        await self._workload.restore()
        await self._settle(ended)

    async def _inject(self, planned: Planned) -> None:
        await asyncio.sleep(planned.after)
        reporter, kind = self._reporter, planned.kind
        number = 0

        def began(hit: str) -> None:
            nonlocal number
            number = reporter.fault(kind)
            self._faults.append(f"#{number} {kind}")
            reporter.line(f"#{number} {kind}: {hit}" + (f", for {planned.seconds:.1f} s" if planned.seconds else ""))

        context = self._context._replace(chance=random.Random(planned.seed), began=began)
        try:
            await FAULTS[kind].act(context, planned.seconds)
        except NoEffect as reason:
            reporter.no_effect[kind] += 1
            self._schedule.deck.put_back(kind)
            log.info("%s has no effect: %s", kind, reason)
            return
        if planned.seconds:
            reporter.line(f"#{number} {kind}: ended")

    async def _settle(self, since: float) -> None:
        seconds = await self._judge.converged(since, self._options.patience, self._workload.collect)
        for rule, texts in ((CRASH, self._system.crashes), (RIGHTS, self._system.denials)):
            for text in texts:
                self._judge.report(rule, text)
        self._system.crashes.clear()
        if not self._judge.violations:
            bound = self._judge.watched.bound
            if self._faults:
                self._reporter.settled.append((seconds, ", ".join(self._faults)))
            self._reporter.line(
                f"settled {seconds:.1f} s after {self._before()}: {bound.count - self._bound} pods were bound "
                f"since the last time, {len(bound.bound)} are"
            )
            self._bound = bound.count

    def _before(self) -> str:
        if not self._reporter.count:
            return "the start"
        count = len(self._faults)
        return f"the last of {count} faults had ended" if count != 1 else "the fault had ended"
