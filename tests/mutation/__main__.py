"""``make mutate``: how many mutants of our code the tests kill.

Environment: MUTATE_SAMPLE mutants of each group (20), MUTATE_SEED (1), MUTATE_GROUPS (names, comma-separated; all),
MUTATE_WORKERS processes (2), MUTATE_REPORT file (.cache/mutation/report.md).
MUTATE_AGAIN=1 tries only the mutants that the tests did not kill when the report was written, and takes the others from
the report: for work on tests, as long as no test is weakened.
"""

import contextlib
import os
import signal
import sys
import tempfile
import threading
from pathlib import Path

from mutation import report
from mutation.equivalent import find
from mutation.groups import GROUPS, Group
from mutation.mutants import Mutant, sample
from mutation.selection import Recording, Recordings, merge
from mutation.workers import Copy, Run, Stopped, Verdict

ROOT = Path(__file__).parents[2]
SAMPLE = int(os.environ.get("MUTATE_SAMPLE", "20"))
SEED = int(os.environ.get("MUTATE_SEED", "1"))
WORKERS = int(os.environ.get("MUTATE_WORKERS", "2"))
REPORT = Path(os.environ.get("MUTATE_REPORT", ROOT / ".cache" / "mutation" / "report.md"))
RECORDINGS = ROOT / ".cache" / "mutation" / "recordings"
AGAIN = os.environ.get("MUTATE_AGAIN", "") == "1"
RECORD = REPORT.with_name("killed.json")
CHOSEN = [name.strip() for name in os.environ.get("MUTATE_GROUPS", "").split(",") if name.strip()]


class Pool:
    """Workers that share the mutants of all groups; each has copies of its own."""

    def __init__(self, snapshot: Path, directory: Path) -> None:
        self._snapshot = snapshot
        self._directory = directory
        self._changed = threading.Condition()
        self._groups: list[tuple[Group, list[Mutant]]] = []
        self._mutants: list[tuple[Group, Mutant, Recording]] = []
        self._recording = 0
        self._failed: list[str] = []
        self._copies: list[Copy] = []
        self._stopped = False
        self.results: list[report.Result] = []

    def run(self, tasks: list[tuple[Group, list[Mutant]]], killed: dict[str, str]) -> list[str]:
        """Run all mutants but those known to be killed; return what went wrong with the tests themselves."""
        for group, sampled in tasks:
            known = [mutant for mutant in sampled if mutant.digest in killed]
            self.results += [report.Result(mutant, Run(Verdict.KILLED, 0.0, killed[mutant.digest])) for mutant in known]
            if mutants := [mutant for mutant in sampled if mutant.digest not in killed]:
                self._groups.append((group, mutants))
        threads = [threading.Thread(target=self._work, args=(number,), daemon=True) for number in range(WORKERS)]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join()
        except BaseException:  # interrupted
            self._stop()
            for thread in threads:
                thread.join()
            raise
        return self._failed

    def _stop(self) -> None:
        with self._changed:
            self._stopped = True
            for copy in self._copies:
                copy.stop()
            self._changed.notify_all()

    def _work(self, number: int) -> None:
        copies: dict[bool, Copy] = {}
        with contextlib.suppress(Stopped):
            while task := self._next():
                group = task[0]
                if group.compiled not in copies:
                    where = self._directory / f"{number}-{'compiled' if group.compiled else 'plain'}"
                    copies[group.compiled] = self._new_copy(where, compiled=group.compiled)
                if len(task) == 2:
                    self._record(copies[group.compiled], group, task[1])
                else:
                    self._run_mutant(copies[group.compiled], *task)

    def _next(self) -> tuple[Group, Mutant, Recording] | tuple[Group, list[Mutant]] | None:
        """Return a mutant of a recorded group, or else a group to record; None if there will be none."""
        with self._changed:
            self._changed.wait_for(lambda: self._mutants or self._groups or not self._recording or self._stopped)
            if self._stopped:
                return None
            if self._mutants:
                return self._mutants.pop(0)
            if self._groups:
                self._recording += 1
                return self._groups.pop(0)
            return None

    def _new_copy(self, where: Path, *, compiled: bool) -> Copy:
        copy = Copy(self._snapshot, where, compiled=compiled)
        with self._changed:
            self._copies.append(copy)
            if self._stopped:
                copy.stop()
        return copy

    def _record(self, copy: Copy, group: Group, mutants: list[Mutant]) -> None:
        run, recording = None, None
        try:
            tests = group.test_files(self._snapshot)
            kept = Recordings(RECORDINGS, self._snapshot, group.modules(self._snapshot))
            known = kept.known(tests)
            if missing := [test for test in tests if test not in known]:
                run, recorded = copy.baseline(missing)
                if run.verdict is Verdict.SURVIVED:
                    kept.keep(missing, recorded)
            else:
                run, recorded = Run(Verdict.SURVIVED, 0.0), Recording({}, {})
            recording = merge([*known.values(), recorded])
        finally:
            with self._changed:
                self._recording -= 1
                if run and recording and run.verdict is Verdict.SURVIVED:
                    print(f"{group.name}: {len(recording.seconds)} tests, {run.seconds:.1f} s", flush=True)
                    self._mutants += [(group, mutant, recording) for mutant in mutants]
                elif run:
                    self._failed.append(f"{group.name}: the tests fail without a mutant:\n{run.output}")
                self._changed.notify_all()

    def _run_mutant(self, copy: Copy, group: Group, mutant: Mutant, recording: Recording) -> None:
        run = copy.run(mutant, recording, confirmed=group.confirmed)
        if run.verdict is Verdict.SURVIVED and (same := find(mutant, (self._snapshot / mutant.path).read_text())):
            run = Run(Verdict.EQUIVALENT, run.seconds, output=same.reason)
        result = report.Result(mutant, run)
        with self._changed:
            self.results.append(result)
            print(report.line(result), flush=True)


def main() -> int:
    """Measure, print and write the report; return 1 if something is below its limit."""
    unknown = set(CHOSEN) - {group.name for group in GROUPS}
    if unknown:
        print(f"MUTATE_GROUPS: unknown {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    groups = [group for group in GROUPS if not CHOSEN or group.name in CHOSEN]
    with tempfile.TemporaryDirectory(prefix="deviceshare-mutants-") as directory:
        # Of what is there now: the checkout may change while the mutants run.
        snapshot = Copy(ROOT, Path(directory) / "snapshot", compiled=True).root
        tasks = [(group, sample(snapshot, group.name, group.modules(snapshot), SAMPLE, SEED)) for group in groups]
        pool = Pool(snapshot, Path(directory))
        killed = report.read_killed(RECORD) if AGAIN else {}
        failed = pool.run(tasks, killed)
        order = {mutant: number for number, mutant in enumerate(mutant for _, mutants in tasks for mutant in mutants)}
        results = sorted(pool.results, key=lambda result: order[result.mutant])
        REPORT.parent.mkdir(parents=True, exist_ok=True)
        REPORT.write_text(report.page(snapshot, results, f"MUTATE_SAMPLE={SAMPLE} MUTATE_SEED={SEED}"))
    report.write_killed(RECORD, results)
    print(f"\nMUTATE_SAMPLE={SAMPLE} MUTATE_SEED={SEED}, report: {REPORT}\n\n{report.table(results)}")
    problems = failed + report.weak(results)
    print("\n".join(problems), file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
