"""``python -m deviceshare_inventory``."""

import os
import sys
from argparse import ArgumentTypeError
from contextlib import suppress

from deviceshare.model import ConfigError
from deviceshare_bus.runtime.options import positive, seconds
from deviceshare_bus.runtime.plugins import load_families
from deviceshare_bus.runtime.service import parser, run
from deviceshare_cluster import UnknownCluster, check_cluster, reviewer_of
from deviceshare_cluster.dry_run import DRY_RUN
from deviceshare_cluster.kube import SILENCE
from deviceshare_cluster.signing import signing_keys

from deviceshare_inventory.service import WATCH_WINDOW, main, read_conf

SCHEDULERS = ("deviceshare", "volcano")


def window(text: str) -> float:
    """Return for how many seconds changes are collected. Raises ArgumentTypeError."""
    with suppress(ArgumentTypeError):
        if (found := seconds(text)) <= 1.0:
            return found
    raise ArgumentTypeError(f"{text!r} is not valid: expected a number of seconds, 0 to 1")


def start() -> None:
    """Read the options and run."""
    options = parser("inventory")
    options.add_argument("--cluster", required=True, help="kube, kube:CONTEXT or local:nats://host:port")
    options.add_argument("--conf", metavar="FILE", help="volcano-scheduler.conf (default: a ConfigMap of the cluster)")
    options.add_argument(
        "--scheduler-name",
        action="append",
        metavar="NAME",
        help=f"spec.schedulerName of the pods to serve (repeatable; default: {', '.join(SCHEDULERS)})",
    )
    options.add_argument(
        "--watch-silence",
        type=positive,
        default=SILENCE,
        metavar="SECONDS",
        help=f"restart a watch that has been silent for this time (default: {SILENCE:g})",
    )
    options.add_argument(
        "--watch-window",
        type=window,
        default=os.environ.get("DEVICESHARE_WATCH_WINDOW") or WATCH_WINDOW,
        metavar="SECONDS",
        help="collect changes of a kind for this time, 0 to 1; those after a pause are handled at once "
        f"(default: {WATCH_WINDOW:g})",
    )
    options.add_argument("--dry-run", action="store_true", help=DRY_RUN)
    parsed = options.parse_args()
    parsed.scheduler_name = parsed.scheduler_name or list(SCHEDULERS)
    try:
        load_families()  # the configuration may contain their flags
        check_cluster(parsed.cluster)
        signing_keys()
        if parsed.conf:
            read_conf(parsed.conf)
    except (UnknownCluster, ConfigError, OSError, UnicodeDecodeError) as error:
        sys.exit(f"deviceshare-inventory: {error}")
    run("inventory", main, parsed, reviewer_of(parsed.cluster))


if __name__ == "__main__":
    start()
