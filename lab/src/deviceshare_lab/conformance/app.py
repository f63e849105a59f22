"""The command line of ``deviceshare lab conformance``."""

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def conformance(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="Recorded cases or sessions, .jsonl or .jsonl.gz.")
    ],
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Show every difference of every case that failed.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_volcano: Annotated[
        bool, typer.Option("--as-volcano", help="Replay sessions and unit tests without any extension of Volcano.")
    ] = False,
) -> None:
    """Compare our answers with those recorded from Volcano's code, and from kube-scheduler's.

    A file has one case or session per line. A case is one node and its devices; device configurations are read from
    configs/ beside the file. Fit, score, annotations and the state of the devices are compared after every step. A
    deviation explains a difference if our answer is as recorded after the input is replaced by what Volcano reads.

    A session is a whole cluster: pods, nodes, devices, order and phases of PodGroups are compared. A rule explains a
    difference if our decisions are as recorded when the rule is disabled.

    A case of kube-scheduler is a cluster and a pod: what each plugin says of every node is compared, and the scores of
    InterPodAffinity and PodTopologySpread.

    A case of preemption is a cluster in which pods wait: who is evicted for them is compared with the best
    victims, which an exact search found. The status is 1 if they are not good enough over all cases. In Volcano's unit
    tests of preemption the pods that are evicted are compared.

    A case of Kubernetes' allocator of devices (Dynamic Resource Allocation) is a cluster and claims: errors and devices
    of every node are compared. It needs the package deviceshare[dra].

    docs/compatibility.md lists all deviations and rules. The command needs no running system. The status is 1 if a case
    or session failed.
    """
    from deviceshare_lab.conformance import command

    raise typer.Exit(command.conformance(files, verbose=verbose, json=json, as_volcano=as_volcano))
