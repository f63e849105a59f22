"""Volcano's job plugins env, svc and ssh: their changes of a Job's pods, and the objects that they create.

Source: volcano-sh/volcano pkg/controllers/job/plugins. Omits the NetworkPolicy of svc and the generated keys of ssh
(keys given as arguments are kept), because pods of the local cluster neither run nor have a network.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any

from deviceshare_cluster.interface import Object

from deviceshare_localcluster.owned_objects import owned_by

PLUGINS = ("env", "svc", "ssh")
FRAMEWORKS: Mapping[str, Sequence[str]] = {
    "tensorflow": ("svc",),
    "pytorch": ("svc",),
    "mpi": ("svc", "ssh"),
    "ray": ("svc",),
    "hcclrank": (),
}
"""Known plugins that are not implemented, and the plugins that Volcano adds for them."""

_VOLCANO_PATH = "/etc/volcano"
_SSH_PATH = "/root/.ssh"
_SSH_FILES = ("id_rsa", "id_rsa.pub", "authorized_keys", "config")


def add_to_template(job: Object, pod: Object) -> None:
    """Apply the changes of the Job's plugins that are equal for all pods, in place."""
    plugins = job["spec"].get("plugins") or {}
    name = job["metadata"]["name"]
    spec = pod["spec"]
    if "svc" in plugins:
        arguments = _arguments(plugins["svc"])
        spec["subdomain"] = spec.get("subdomain") or name
        if arguments.get("inject-hosts-env", "true") != "false":
            _add_to_containers(spec, "env", _host_variables(job))
        _mount(spec, f"{name}-svc", {"configMap": {"name": f"{name}-svc"}}, {"mountPath": _VOLCANO_PATH})
    if "ssh" in plugins:
        path = _arguments(plugins["ssh"]).get("ssh-key-file-path", _SSH_PATH)
        secret = {
            "secretName": f"{name}-ssh",
            "items": [{"key": file, "path": f".ssh/{file}"} for file in _SSH_FILES],
            "defaultMode": 0o600 if path == _SSH_PATH else 0o644,
        }
        _mount(spec, f"{name}-ssh", {"secret": secret}, {"mountPath": path, "subPath": ".ssh"})


def add_to_pod(job: Object, pod: Object, index: int) -> None:
    """Apply the changes that depend on the pod's index within its task, in place."""
    plugins = job["spec"].get("plugins") or {}
    if "env" in plugins:
        number = [{"name": name, "value": str(index)} for name in ("VK_TASK_INDEX", "VC_TASK_INDEX")]
        _add_to_containers(pod["spec"], "env", number)
    if "svc" in plugins:
        pod["spec"]["hostname"] = pod["spec"].get("hostname") or pod["metadata"]["name"]


def plugin_objects(job: Object) -> list[Object]:
    """Return the objects that the plugins create: ConfigMap, Service, Secret."""
    plugins = job["spec"].get("plugins") or {}
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    out: list[Object] = []
    if "svc" in plugins:
        ready = _arguments(plugins["svc"]).get("publish-not-ready-addresses", "false") != "false"
        spec = {
            "clusterIP": "None",
            "selector": {"volcano.sh/job-name": name, "volcano.sh/job-namespace": namespace},
            "publishNotReadyAddresses": ready,
        }
        out.append(_owned(job, "ConfigMap", f"{name}-svc", data=_host_files(job)))
        out.append(_owned(job, "Service", name, spec=spec))
    if "ssh" in plugins:
        data = {file: base64.b64encode(text.encode()).decode() for file, text in _ssh_files(job).items()}
        out.append(_owned(job, "Secret", f"{name}-ssh", type="Opaque", data=data))
    return out


def _owned(job: Object, kind: str, name: str, **fields: Any) -> Object:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": name, **owned_by(job)}, **fields}


def hosts(job: Object, task: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return host name and subdomain of each pod of a task; one for all pods if the template has a hostname."""
    spec = task["template"]["spec"]
    subdomain = spec.get("subdomain") or job["metadata"]["name"]
    if spec.get("hostname"):
        return [(spec["hostname"], subdomain)] if task["replicas"] else []
    return [(f"{job['metadata']['name']}-{task['name']}-{index}", subdomain) for index in range(task["replicas"])]


def _variable(task: Mapping[str, Any]) -> str:
    return str(task["name"]).replace("-", "_")


def _host_variables(job: Object) -> list[dict[str, Any]]:
    """Return variables with the hosts of every task from the ConfigMap."""
    out = []
    for task in job["spec"]["tasks"]:
        for ending in ("HOSTS", "NUM"):
            name = f"VC_{_variable(task).upper()}_{ending}"
            reference = {"name": f"{job['metadata']['name']}-svc", "key": name}
            out.append({"name": name, "valueFrom": {"configMapKeyRef": reference}})
    return out


def _host_files(job: Object) -> dict[str, str]:
    data = {}
    for task in job["spec"]["tasks"]:
        names = [f"{host}.{subdomain}" for host, subdomain in hosts(job, task)]
        variable = _variable(task)
        data[f"{variable}.host"] = "\n".join(names)
        data[f"VC_{variable.upper()}_HOSTS"] = ",".join(names)
        data[f"VC_{variable.upper()}_NUM"] = str(len(names))
    return data


def _ssh_files(job: Object) -> dict[str, str]:
    arguments = _arguments(job["spec"]["plugins"]["ssh"])
    port = arguments.get("ssh-port", "22")
    if not port.isdigit() or not 0 < int(port) <= 65535:
        port = "22"
    lines = ["StrictHostKeyChecking no", "UserKnownHostsFile /dev/null"]
    for task in job["spec"]["tasks"]:
        for host, subdomain in hosts(job, task):
            lines += [f"Host {host}", f"  HostName {host}.{subdomain}", f"  Port {port}"]
    public = arguments.get("ssh-public-key", "")
    files = {"id_rsa": arguments.get("ssh-private-key", ""), "id_rsa.pub": public, "authorized_keys": public}
    return files | {"config": "\n".join(lines) + "\n"}


def _arguments(given: Sequence[str] | None) -> dict[str, str]:
    """Parse a plugin's flags: ``--name=value``, or ``--name`` for true."""
    flags = {}
    for argument in given or ():
        name, equals, value = argument.lstrip("-").partition("=")
        flags[name] = value if equals else "true"
    return flags


def _add_to_containers(spec: dict[str, Any], field: str, values: list[dict[str, Any]]) -> None:
    for container in (*spec["containers"], *(spec.get("initContainers") or ())):
        container[field] = [*(container.get(field) or ()), *values]


def _mount(spec: dict[str, Any], name: str, source: dict[str, Any], mount: dict[str, Any]) -> None:
    spec["volumes"] = [*(spec.get("volumes") or ()), {"name": name, **source}]
    _add_to_containers(spec, "volumeMounts", [{"name": name, **mount}])
