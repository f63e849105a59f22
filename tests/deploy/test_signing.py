"""Signing is on by default: the services that sign and verify mount the same Secret and read the keys from its file."""

import pytest
from support import deploy


@pytest.mark.parametrize("name", ["binder", "inventory"])
def test_the_keys_are_a_mounted_file_of_a_secret_that_must_exist(name):
    (deployment,) = [o for o in deploy.everything() if (o["kind"], o["metadata"]["name"]) == ("Deployment", name)]
    spec = deployment["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    variables = {one["name"]: one.get("value") for one in container["env"]}
    assert "DEVICESHARE_SIGNING_KEY" not in variables
    (volume,) = [one for one in spec["volumes"] if one.get("secret", {}).get("secretName") == "deviceshare-signing"]
    assert not volume["secret"].get("optional")
    (mount,) = [one for one in container["volumeMounts"] if one["name"] == volume["name"]]
    assert mount["readOnly"]
    assert variables["DEVICESHARE_SIGNING_KEY_FILE"] == f"{mount['mountPath']}/keys"
