"""The kernels, and the policies of traces, as plain Python, even if they are compiled."""

import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

_PACKAGES = ("deviceshare.kernels", "deviceshare_lab.traces")


class _Sources(MetaPathFinder):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, _, name = fullname.rpartition(".")
        if package not in _PACKAGES or not path:
            return None
        source = Path(path[0]) / f"{name}.py"
        return importlib.util.spec_from_file_location(fullname, source)


def install() -> None:
    """Load them from their sources, from now on."""
    sys.meta_path.insert(0, _Sources())
