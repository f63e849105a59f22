"""Names of packages that are imported when they are used: each that a package has is there."""

import ast
import inspect
from importlib import import_module

import pytest


@pytest.mark.parametrize("package", ["deviceshare.objects", "deviceshare_localcluster"])
def test_all_names_of_a_package_are_there(package: str) -> None:
    module = import_module(package)
    statements = ast.walk(ast.parse(inspect.getsource(module)))
    imports = [each for each in statements if isinstance(each, ast.ImportFrom) and f"{each.module}".startswith(package)]
    names = [alias.asname for each in imports for alias in each.names]
    assert len(names) > 8
    assert [name for name in names if name is None or not hasattr(module, name)] == []
    assert not hasattr(module, "missing")
