"""The process of a command: its log, its output, its threads and its garbage."""

import gc
import io
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from deviceshare_cli.output import VisibleStream

GC_THRESHOLDS = (50_000, 20, 10)
"""How many objects are made between two searches for garbage among the youngest ones, as in the services; and how many
of these searches, and of those, until older ones are searched as well."""


@contextmanager
def prepared() -> Iterator[None]:
    """Prepare the process, until a command has ended."""
    # Modules, and what a command reads, are in use until it ends: to look for garbage among them is in vain.
    gc.set_threshold(*GC_THRESHOLDS)
    # numpy would start a thread for each core, for matrix products, of which there are none.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    # Log messages of libraries are for services; commands report errors themselves.
    logging.getLogger("deviceshare").addHandler(logging.NullHandler())
    logging.getLogger("deviceshare").propagate = False
    logging.getLogger("asyncio").addHandler(logging.NullHandler())
    # Characters that the terminal's encoding lacks are escaped, as on stderr.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    sys.stdout, sys.stderr = VisibleStream(sys.stdout), VisibleStream(sys.stderr)
    try:
        yield
    finally:
        gc.freeze()  # else the interpreter looks at all objects once more when it ends
