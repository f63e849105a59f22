"""``python -m deviceshare_placement``."""

from deviceshare_bus.runtime.service import parser, run

from deviceshare_placement.service import main

if __name__ == "__main__":
    run("placement", main, parser("placement").parse_args())
