"""``python -m deviceshare_metrics --bus URL [--metrics-port 8080] [--metrics-address 127.0.0.1]``."""

import os
from argparse import ArgumentTypeError

from deviceshare_bus.runtime.options import port
from deviceshare_bus.runtime.service import parser, run
from deviceshare_cluster import kube_reviewer

from deviceshare_metrics.card_metrics import DETAILS
from deviceshare_metrics.service import main


def detail(text: str) -> str:
    """Return a detail of the metrics. Raises ArgumentTypeError."""
    if text in DETAILS:
        return text
    raise ArgumentTypeError(f"{text!r} is not valid: expected {', '.join(DETAILS[:-1])} or {DETAILS[-1]}")


options = parser("metrics")
options.add_argument(
    "--metrics-address",
    default=os.environ.get("DEVICESHARE_METRICS_ADDRESS", "127.0.0.1"),
    help="address of /metrics, the JSON API and the page",
)
options.add_argument(
    "--metrics-port",
    type=port,
    default=os.environ.get("DEVICESHARE_METRICS_PORT", "8080"),
    help="their port, 0 for any",
)
options.add_argument(
    "--metrics-detail",
    type=detail,
    default=os.environ.get("DEVICESHARE_METRICS_DETAIL", "card"),
    help="the smallest objects with series of their own in /metrics: card, node or cluster (default: %(default)s)",
)

if __name__ == "__main__":
    run("metrics", main, options.parse_args(), kube_reviewer)
