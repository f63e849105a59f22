"""Volcano's own scheduler and controllers as processes beside an API server."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from support import deploy, dry_run
from support.apiserver import ApiServer
from support.definitions import installed
from support.node_plugins import PLUGINS

SYSTEM, USER = "volcano-system", "volcano"
_CONTROLLERS, _SCHEDULER = PLUGINS / "volcano-controllers", PLUGINS / "volcano-scheduler"


def missing() -> str:
    """Return why they cannot run here, empty if they can."""
    absent = [path.name for path in (_CONTROLLERS, _SCHEDULER) if not path.exists()]
    return f"no {', no '.join(absent)} in {PLUGINS} (make node)" if absent else ""


@contextmanager
def running(server: ApiServer, directory: Path, conf: Path) -> Iterator[str]:
    """Run both on an API server, with all kinds of Volcano; give the name of their account."""
    dry_run.add_account(server, SYSTEM, USER)
    kubeconfig = server.kubeconfig(USER, deploy.token(server, SYSTEM, USER))
    common = (f"--kubeconfig={kubeconfig}", "--leader-elect=false", "--logtostderr")
    commands = (
        (_CONTROLLERS, *common, "--healthz-address=127.0.0.1:0"),
        (_SCHEDULER, *common, f"--scheduler-conf={conf}", "--healthz-address=127.0.0.1:0", "--cache-dumper=false"),
    )
    definitions = [one for path in sorted((PLUGINS / "volcano-crds").glob("*.yaml")) for one in deploy.read(path)]
    with installed(server, *definitions):
        processes = []
        try:
            for program, *arguments in commands:
                with (directory / f"{program.name}.log").open("wb") as log:
                    processes.append(subprocess.Popen([program, *arguments], stdout=log, stderr=log))
            yield f"system:serviceaccount:{SYSTEM}:{USER}"
            assert [process.poll() for process in processes] == [None, None], "Volcano ended"
        finally:
            for process in processes:
                process.kill()
                process.wait()
