"""No vendor's name outside ``deviceshare.families`` in the code that reads objects, and in metrics and commands."""

import ast
import re
from pathlib import Path

import deviceshare_cli
import deviceshare_metrics
from deviceshare import objects

NAMES = re.compile(r"hami|4pd|vgpu|nvidia|mindcluster|clusterd|ascend|huawei|npu-core|gpu[-_]?(share|number)", re.I)
NO_VENDORS = re.compile("ascending", re.I)
"""Words that contain such a name by chance."""
FILES = sorted(
    path
    for package in (objects, deviceshare_cli, deviceshare_metrics)
    for path in Path(package.__file__ or "").parent.rglob("*.py")
)


def names_in(source: str) -> list[str]:
    """Return the names of vendors in identifiers and texts; comments and docstrings may give examples."""
    tree = ast.parse(source)
    documented = {
        id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    words = [
        str(value)
        for node in ast.walk(tree)
        if id(node) not in documented
        for _, value in ast.iter_fields(node)
        if isinstance(value, str | bytes)
    ]
    return [word for word in words if NAMES.search(NO_VENDORS.sub("", word))]


def test_hooks_stand_in_place_of_vendors() -> None:
    """What differs by vendor is a member of ``deviceshare.families.hooks``."""
    assert {str(path): words for path in FILES if (words := names_in(path.read_text()))} == {}


def test_names_are_found_where_code_has_them_and_not_in_examples() -> None:
    source = "from a.hami_gpu import x\nKEY = f'volcano.sh/vgpu-{x}'  # nvidia\n'''nvidia.com/gpu'''\nascending = 1\n"
    assert names_in(source) == ["a.hami_gpu", "volcano.sh/vgpu-"]
