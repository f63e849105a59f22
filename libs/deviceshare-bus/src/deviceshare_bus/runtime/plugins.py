"""Device families of other packages: entry points of the group ``deviceshare.families``."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from deviceshare.families import Family, register
from deviceshare.model import ConfigError

GROUP = "deviceshare.families"


@cache
def load_families() -> None:
    """Register the families of installed packages, in the order of the names of their entry points.

    An entry point names a family or its class. Call it before decoding any message; further calls do nothing.

    Raises:
        ConfigError: an entry point is invalid; the error names it and its package.
    """
    loaded: dict[str, EntryPoint] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            found = point.load()
            family: Family = found() if isinstance(found, type) else found
            other = loaded.setdefault(family.name, point)
            if other is not point:
                raise ValueError(f"{other.value} is called {family.name} as well")
            register(family)
        except Exception as error:  # the code of other packages may raise any error on import
            raise ConfigError(
                f"Package {point.dist.name} {point.dist.version}" if point.dist is not None else "Python package",
                f"entry point {point.name} of {GROUP}",
                point.value,
                f"a device family that can be loaded ({type(error).__name__}: {error})",
            ) from error
