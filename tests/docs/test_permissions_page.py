"""The page for operators lists every permission that the manifests grant, and no other; its directories exist."""

import re

from deviceshare.objects import DEVICE_KINDS, KINDS
from support import deploy

OPERATORS = (deploy.ROOT / "docs" / "operators.md").read_text()


def granted() -> dict[tuple[str, str], set[str]]:
    """Return the verbs that each account has on each resource, anywhere."""
    more = ("preemption", "resource-claims")
    objects = [*deploy.everything(), *(obj for name in more for obj in deploy.read(deploy.KUBERNETES / name))]
    rules = {
        (obj["kind"], obj["metadata"].get("namespace"), obj["metadata"]["name"]): obj["rules"]
        for obj in objects
        if "rules" in obj
    }
    found: dict[tuple[str, str], set[str]] = {}
    for obj in objects:
        if obj["kind"].endswith("RoleBinding"):
            place = obj["roleRef"]["kind"], obj["metadata"].get("namespace"), obj["roleRef"]["name"]
            for rule in rules[place]:
                for group in rule["apiGroups"]:
                    for resource in rule["resources"]:
                        name = f"{resource}.{group}" if group else resource
                        found.setdefault((obj["subjects"][0]["name"], name), set()).update(rule["verbs"])
    return found


def test_each_permission_is_explained_and_granted():
    part = OPERATORS.split("#### Permissions")[1].split("####")[0]
    explained = {}
    for row in part.splitlines():
        if row.startswith("| `"):
            account, resource, verbs, why = (cell.strip() for cell in row.strip("|").split("|"))
            assert why
            explained[account.strip("`"), resource.strip("`")] = set(re.findall(r"`(\w+)`", verbs))
    assert explained == granted()


def test_inventory_may_read_what_it_watches_and_nothing_else():
    watched = {
        f"{kind.plural}.{group}".rstrip(".")
        for kind in {**KINDS, **DEVICE_KINDS}.values()
        for group in [kind.version.rpartition("/")[0]]
    }
    read = {resource for (account, resource), verbs in granted().items() if account == "inventory" and "list" in verbs}
    assert read == watched


def test_config_maps_are_read_in_the_namespaces_that_the_page_names():
    granted_in = {
        obj["metadata"]["namespace"]
        for obj in deploy.everything()
        if obj["kind"] == "Role" and any("configmaps" in rule["resources"] for rule in obj["rules"])
    }
    (sentence,) = re.findall(r"^ConfigMaps are read in (.*?)\.", OPERATORS, re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"`([\w-]+)`", sentence)) == granted_in


def test_directories_and_files_exist():
    for name in set(re.findall(r"deploy/kubernetes/[\w./-]+\w", OPERATORS)):
        assert (deploy.ROOT / name).exists(), name
