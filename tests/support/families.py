"""Unregister the device families that a test registered."""

from collections.abc import Iterator
from contextlib import contextmanager

from deviceshare.conf import device_sections, known
from deviceshare.families import BY_NAME, FAMILIES, pod_keys


@contextmanager
def restored_families() -> Iterator[None]:
    """Restore the registered families and their configuration arguments at the end."""
    families, flags = list(FAMILIES), dict(known._FAMILY_FLAGS)
    sections = dict(device_sections._BUILT_IN)
    try:
        yield
    finally:
        FAMILIES[:] = families
        pod_keys.cache_clear()
        BY_NAME.clear()
        BY_NAME.update({family.name: family for family in families})
        known._FAMILY_FLAGS.clear()
        known._FAMILY_FLAGS.update(flags)
        device_sections._BUILT_IN.clear()
        device_sections._BUILT_IN.update(sections)
