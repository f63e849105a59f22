"""Packages whose modules are imported when their names are first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def importing(package: str, modules: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the ``__getattr__`` of a package: ``modules`` has by module the names that it has, with spaces between.

    The package has the same imports under ``TYPE_CHECKING``.
    """
    module_of = {name: module for module, names in modules.items() for name in names.split()}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{module_of[name]}"), name)

    return get
