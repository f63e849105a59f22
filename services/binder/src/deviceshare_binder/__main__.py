"""``python -m deviceshare_binder``."""

import sys

from deviceshare.model import ConfigError
from deviceshare_bus.runtime.options import positive
from deviceshare_bus.runtime.service import parser, run
from deviceshare_cluster import UnknownCluster, check_cluster, reviewer_of
from deviceshare_cluster.dry_run import DRY_RUN
from deviceshare_cluster.signing import signing_keys

from deviceshare_binder.core import PATIENCE, REPORTS_PER_SECOND
from deviceshare_binder.service import main


def start() -> None:
    """Read the options and run."""
    options = parser("binder")
    options.add_argument("--cluster", required=True, help="kube, kube:CONTEXT or local:nats://host:port")
    options.add_argument(
        "--reports-per-second",
        type=positive,
        default=REPORTS_PER_SECOND,
        metavar="N",
        help="conditions and Events of pods that are written at most; a fourth while pods are being bound "
        f"(default: {REPORTS_PER_SECOND:g})",
    )
    options.add_argument(
        "--plugin-patience",
        type=positive,
        default=PATIENCE,
        metavar="SECONDS",
        help=f"report a pod that its device plugin has not served after this time (default: {PATIENCE:g})",
    )
    options.add_argument("--dry-run", action="store_true", help=DRY_RUN)
    parsed = options.parse_args()
    try:
        check_cluster(parsed.cluster)
        signing_keys()
    except (UnknownCluster, ConfigError) as error:
        sys.exit(f"deviceshare-binder: {error}")
    run("binder", main, parsed, reviewer_of(parsed.cluster))


if __name__ == "__main__":
    start()
