"""``deviceshare bench bus``."""

from deviceshare_cluster.interface import ClusterError

from deviceshare_cli.bench.bus.floor import floor
from deviceshare_cli.bench.bus.measure import measure
from deviceshare_cli.bench.bus.report import as_text, report
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.output import indented_json
from deviceshare_cli.supervisor import ProgramFailed


async def bench_bus(nodes: int, pods: int, devices: int, timeout: float, *, as_json: bool, with_floor: bool) -> int:
    """Measure, print, and return the exit status: 1 if a pod was not bound."""
    notices = Notices()
    try:
        run = await measure(nodes, devices, pods, timeout, notices)
        floor_seconds = await floor(run, pods, timeout, notices) if with_floor else None
    except (ProgramFailed, ClusterError) as error:
        raise CommandError(str(error)) from None
    shown = report(run, nodes, devices, pods, floor_seconds)
    print(indented_json(shown) if as_json else as_text(shown))
    return int(run.pending > 0)
