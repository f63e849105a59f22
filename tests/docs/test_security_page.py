"""The page about security lists every admission policy with its test, and every component of trusted writers."""

import re

from deviceshare_bus.messages.permissions import USERS
from deviceshare_cli.credentials.manifests import BUS, SECRETS
from support import deploy

PAGE = (deploy.ROOT / "docs" / "security.md").read_text()


def test_every_policy_has_a_row_with_its_test():
    rows = dict(re.findall(r"^\| `(deviceshare-[\w-]+)` .*\| `(tests/[\w/.]+)` \|$", PAGE, re.MULTILINE))
    policies = [obj for obj in deploy.policies() if obj["kind"] == "ValidatingAdmissionPolicy"]
    assert set(rows) == {policy["metadata"]["name"] for policy in policies}
    for name, test in rows.items():
        tables = [f"tests/support/{table}_actions.py" for table in ("admission", "volume")]
        assert any(name in (deploy.ROOT / path).read_text() for path in (test, *tables)), name


def test_every_policy_is_bound_and_denies():
    policies = {obj["metadata"]["name"] for obj in deploy.policies() if obj["kind"] == "ValidatingAdmissionPolicy"}
    bindings = [obj["spec"] for obj in deploy.policies() if obj["kind"] == "ValidatingAdmissionPolicyBinding"]
    assert {spec["policyName"] for spec in bindings} == policies
    assert all(spec["validationActions"] == ["Deny"] for spec in bindings)


def test_every_secret_and_its_directory_are_named():
    section = PAGE.partition("### Credentials")[2].partition("### Replacing")[0]
    directories = set(re.findall(r"^\| `([\w<>]+)/", section, re.MULTILINE))
    assert directories == (set(SECRETS) - set(USERS)) | {"<user>"}
    (text,) = re.findall(r"The Secrets are (.*?), with the", section, re.DOTALL)
    named = set(re.findall(r"`([^`]+)`", text))
    assert named == {name for each, name in SECRETS.items() if each not in USERS} | {f"{BUS}<user>"}


def test_every_component_of_trusted_writers_is_named():
    named = PAGE.partition("**Trusted writers**")[2].partition("**Cost.**")[0]
    for path in (deploy.KUBERNETES / "trusted").iterdir():
        assert f"`{path.name}`" in named, path.name
