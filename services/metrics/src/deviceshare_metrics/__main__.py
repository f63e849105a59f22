"""``python -m deviceshare_metrics --bus URL [--metrics-port 8080] [--metrics-address 127.0.0.1]``."""

import os

from deviceshare_bus.options import port
from deviceshare_bus.service import parser, run

from deviceshare_metrics.service import main

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

if __name__ == "__main__":
    run("metrics", main, options.parse_args())
