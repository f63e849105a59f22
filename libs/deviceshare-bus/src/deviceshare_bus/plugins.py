"""Device families of other packages: entry points of the group ``deviceshare.families``."""

from functools import cache
from importlib.metadata import EntryPoint, entry_points

from deviceshare.families import Family, register
from deviceshare.model import ConfigError

GROUP = "deviceshare.families"


@cache
def load_families() -> None:
    """Make the families known that installed packages bring, in the order of their entry points' names.

    An entry point names a family or its class. Called before anything is decoded; a second call does nothing.

    Raises:
        ConfigError: names the package and the entry point that cannot be used.
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
        except Exception as error:  # whatever the code of others raises when it is imported
            raise ConfigError(
                f"Package {point.dist.name} {point.dist.version}" if point.dist is not None else "Python package",
                f"entry point {point.name} of {GROUP}",
                point.value,
                f"a device family that can be loaded ({type(error).__name__}: {error})",
            ) from error
