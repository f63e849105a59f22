"""Names of packages that are imported when they are used: each that a package has is there."""

from importlib import import_module

import pytest


@pytest.mark.parametrize("package", ["deviceshare.objects", "deviceshare_localcluster"])
def test_all_names_of_a_package_are_there(package: str) -> None:
    module = import_module(package)
    assert module.__all__
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert not hasattr(module, "missing")
