"""Host ports of pods, by the rules of the API server and kube-scheduler."""

from deviceshare.model import HostPort, Problem
from deviceshare.objects.views import PodSpec
from deviceshare.state import ANY_ADDRESS

_PROTOCOLS = ("TCP", "UDP", "SCTP")
_LARGEST = 65535
_SIDECAR = "Always"


def host_ports(spec: PodSpec, subject: str, problems: list[Problem]) -> tuple[HostPort, ...]:
    """Return the host ports of containers and sidecars, sorted, without duplicates; an invalid port is a problem.

    With ``hostNetwork`` every container port is a host port. Other init containers end before the containers start, and
    kube-scheduler does not count their ports.
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
                    problems.append(Problem(subject, f"{field}.hostPort", str(number), f"from 1 to {_LARGEST}"))
                elif protocol not in _PROTOCOLS:
                    expected = f"one of {', '.join(_PROTOCOLS)}"
                    problems.append(Problem(subject, f"{field}.protocol", protocol, expected))
                elif number:
                    found.add(HostPort(port.host_ip or ANY_ADDRESS, protocol, number))
    return tuple(sorted(found))
