"""Decoding of host ports, as the API server and kube-scheduler interpret them."""

from deviceshare.model import HostPort
from deviceshare.objects.bounds import MAX_HOST_PORTS
from deviceshare.objects.pod_views import PodSpec
from deviceshare.objects.problems import Problems
from deviceshare.state import ANY_ADDRESS

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_LARGEST = 65535
_SIDECAR = "Always"


def host_ports(spec: PodSpec, problems: Problems) -> tuple[HostPort, ...]:
    """Return the host ports of a pod's containers and sidecars, sorted, without duplicates; invalid ones are problems.

    With ``hostNetwork`` every container port is a host port. Like kube-scheduler, ignores the ports of other init
    containers.
    """
    found: set[HostPort] = set()
    for part, containers in (("containers", spec.containers), ("initContainers", spec.init_containers)):
        for container in containers or ():
            if not container.ports or (part == "initContainers" and container.restart_policy != _SIDECAR):
                continue
            for index, port in enumerate(container.ports):
                number = port.host_port or (port.container_port if spec.host_network else 0) or 0
                protocol = port.protocol or _PROTOCOLS[0]
                field = f"spec.{part}[{container.name or ''}].ports[{index}]"
                if not 0 <= number <= _LARGEST:
                    problems.add(f"{field}.hostPort", str(number), f"from 1 to {_LARGEST}")
                elif protocol not in _PROTOCOLS:
                    problems.add(f"{field}.protocol", protocol, f"one of {', '.join(_PROTOCOLS)}")
                elif number:
                    found.add(HostPort(port.host_ip or ANY_ADDRESS, protocol, number))
    if len(found) > MAX_HOST_PORTS:
        problems.add("spec.containers[].ports", f"{len(found)} host ports", f"at most {MAX_HOST_PORTS} host ports")
    return tuple(sorted(found)[:MAX_HOST_PORTS])
