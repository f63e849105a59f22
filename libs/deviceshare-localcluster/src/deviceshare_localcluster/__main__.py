"""``python -m deviceshare_localcluster``: a local cluster as a process, for services that are started separately.

Sets up the cluster on a nats-server, loads a directory of manifests, then runs the controllers until SIGTERM. A restart
keeps the cluster's state; loading unchanged manifests again has no effect.
"""

import argparse
import asyncio
import logging
import os
import secrets
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from deviceshare.model import ConfigError
from deviceshare_bus.runtime.logs import set_up_logs
from deviceshare_bus.runtime.options import log_level
from deviceshare_bus.wire.connection import without_password
from deviceshare_cluster.interface import ClusterError

from deviceshare_localcluster.cluster import LocalCluster
from deviceshare_localcluster.controller import Controller
from deviceshare_localcluster.loading import load_manifests
from deviceshare_localcluster.manifests import read_manifests

log = logging.getLogger("deviceshare.local_cluster")

NAME = "local-cluster"
RETRY_SECONDS = 0.5


def parser() -> argparse.ArgumentParser:
    """Return the options; each has an environment variable for containers."""
    environment = os.environ.get
    url = environment("DEVICESHARE_CLUSTER_URL") or None
    options = argparse.ArgumentParser(
        prog=f"deviceshare-{NAME}", description="Set a local cluster up, load manifests, and run its controllers."
    )
    options.add_argument(
        "--cluster",
        type=_server,
        default=url,
        required=url is None,
        metavar="nats://HOST:PORT",
        help="the nats-server that holds the cluster",
    )
    options.add_argument(
        "--load",
        type=Path,
        default=environment("DEVICESHARE_LOAD") or None,
        metavar="DIR",
        help="a directory of manifests to load at start",
    )
    options.add_argument(
        "--log-level",
        type=log_level,
        default=environment("DEVICESHARE_LOG_LEVEL", "info"),
        help="debug, info, warning or error",
    )
    return options


def _server(text: str) -> str:
    try:
        url = urlsplit(text)
        usable = url.scheme in ("nats", "tls") and bool(url.hostname) and url.port != 0
    except ValueError:  # the port is no number, or too large
        usable = False
    if not usable:
        raise argparse.ArgumentTypeError(f"{text!r} is not valid: expected nats://HOST:PORT")
    return text


async def serve(url: str, directory: Path | None) -> None:
    """Set the cluster up and load a directory once the server answers, then run the controllers without end."""
    log.info("waiting for %s", without_password(url))
    async with LocalCluster(url, name=NAME) as cluster:
        while True:
            try:
                await cluster.setup()
                if directory is not None:
                    await _load(cluster, directory)
                break
            except ClusterError as error:
                log.warning("%s", error)
                await asyncio.sleep(RETRY_SECONDS)
        await Controller(cluster).run()


async def _load(cluster: LocalCluster, directory: Path) -> None:
    loaded = await load_manifests(cluster, read_manifests(directory), lambda line: log.warning("%s", line))
    actions = Counter(result.action for _, result in loaded.results)
    shown = ", ".join(f"{count} {action}" for action, count in sorted(actions.items()))
    log.info("loaded %s: %s", directory, shown or "no objects")


async def run(url: str, directory: Path | None) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status, 1 on failure."""
    work = asyncio.create_task(serve(url, directory))
    loop = asyncio.get_running_loop()
    for signum in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(signum, work.cancel)
    try:
        await work
    except asyncio.CancelledError:
        log.info("stopped")
        return 0
    except ConfigError as error:
        log.error("%s", error)
    except Exception as error:
        log.error("the local cluster failed: %r", error, exc_info=error)
    return 1


def main(arguments: Sequence[str] | None = None) -> None:
    """Run as a command."""
    known = parser()
    options = known.parse_args(arguments)
    if options.load is not None and not options.load.is_dir():
        known.error(f"--load {options.load}: it is not a directory: name one that holds manifests")
    set_up_logs(NAME, f"{NAME}-{secrets.token_hex(3)}", options.log_level)
    sys.exit(asyncio.run(run(options.cluster, options.load)))


if __name__ == "__main__":
    main()
