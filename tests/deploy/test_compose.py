"""compose.yaml and deploy/ name only existing things: modules, options, variables, files, endpoints."""

import asyncio
import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import yaml
from deviceshare_bus.connection import MAX_PAYLOAD, connect
from opentelemetry.sdk import environment_variables

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service["image"] == "deviceshare"]
SERVERS = ["bus", "cluster"]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def filled_in(text: str) -> str:
    """Replace a variable by its default, as compose does: every variable has one."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    assert "$" not in text, text
    return text


def environment(service: dict) -> dict[str, str]:
    return {name: filled_in(value) for name, value in service["environment"].items()}


def test_the_bus_its_setup_four_services_and_a_cluster_are_defined():
    four = {"inventory", "placement", "binder", "metrics"}
    assert set(SERVICES) == {"bus", "setup", "cluster", "local-cluster"} | four
    assert set(OURS) == {"setup", "local-cluster"} | four


@pytest.mark.parametrize("name", OURS)
def test_each_command_is_a_program_with_these_options(name):
    module, *arguments = map(filled_in, SERVICES[name]["command"])
    # --help at the end: argparse has checked the options before it, and nothing is started.
    shown = subprocess.run(
        [sys.executable, "-m", module, *arguments, "--help"], capture_output=True, text=True, timeout=60, check=False
    )
    assert shown.returncode == 0, shown.stderr
    for argument in arguments:
        if argument.startswith("--"):
            assert argument in shown.stdout


@pytest.mark.parametrize("name", OURS)
def test_each_variable_is_read_by_the_code(name):
    sources = [file.read_text() for part in ("libs", "services") for file in (ROOT / part).rglob("src/**/*.py")]
    for variable in SERVICES[name]["environment"]:
        of_sdk = hasattr(environment_variables, variable)
        assert of_sdk or any(f'"{variable}"' in source for source in sources), variable


def test_services_are_restarted_and_wait_for_the_streams():
    for name in set(OURS) - {"setup", "local-cluster"}:
        service = SERVICES[name]
        assert service["restart"] == "always"
        assert service["depends_on"]["setup"]["condition"] == "service_completed_successfully"
        port = environment(service)["DEVICESHARE_HEALTH_PORT"]
        assert f"http://127.0.0.1:{port}/healthz" in " ".join(service["healthcheck"]["test"])


def test_the_local_cluster_is_restarted_and_waits_for_its_server():
    service = SERVICES["local-cluster"]
    assert service["restart"] == "always"
    assert service["depends_on"] == {"cluster": {"condition": "service_healthy"}}
    assert service["healthcheck"] == {"disable": True}, "it has no endpoint"


def test_each_server_has_a_volume_of_its_own():
    stores = {name: [v for v in SERVICES[name]["volumes"] if v.endswith(":/data")] for name in SERVERS}
    assert stores == {name: [f"{name}:/data"] for name in SERVERS}
    assert set(COMPOSE["volumes"]) == set(SERVERS)


def test_only_metrics_can_be_reached_and_only_from_this_machine():
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    port = environment(SERVICES["metrics"])["DEVICESHARE_METRICS_PORT"]
    assert published == {"metrics": [f"127.0.0.1:8080:{port}"]}


def test_mounted_files_exist():
    for service in SERVICES.values():
        for volume in map(filled_in, service.get("volumes", ())):
            source, target, *_ = volume.split(":")
            assert source in COMPOSE["volumes"] or (ROOT / source).exists(), volume
            if target.startswith("/etc"):
                assert volume.endswith(":ro")
                assert target in service["command"]


def test_files_that_the_image_copies_exist():
    copies = re.findall(r"^COPY (?!--from)(.+)$", DOCKERFILE, re.MULTILINE)
    sources = [source for line in copies for source in shlex.split(line)[:-1]]
    assert sources
    kept = (ROOT / "deploy" / "Dockerfile.dockerignore").read_text()
    for source in sources:
        assert (ROOT / source).exists(), source
        assert f"!{Path(source).parts[0]}\n" in kept, f"{source} is not in the build context"


def test_the_image_holds_every_package():
    packages = {file.parent for part in ("libs", "services") for file in (ROOT / part).glob("*/pyproject.toml")}
    assert packages == {path for part in ("libs", "services") for path in (ROOT / part).iterdir() if path.is_dir()}
    assert "for package in libs/* services/*" in DOCKERFILE


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[dict[str, tuple[int, int]]]:
    """Start both servers as compose does, on free ports; return the ports for clients and for HTTP, by name."""
    started, ports = [], {}
    for name in SERVERS:
        client, http = ports[name] = tuple(free_ports(2))
        text = (ROOT / "deploy" / "nats.conf").read_text()
        for old, new in (
            ('"0.0.0.0:4222"', f'"127.0.0.1:{client}"'),
            ('"127.0.0.1:8222"', f'"127.0.0.1:{http}"'),
            ('"/data"', f'"{tmp_path}/{name}"'),
            ("10GB", "1GB"),
        ):
            assert old in text
            text = text.replace(old, new)
        config = tmp_path / f"{name}.conf"
        config.write_text(text)
        options = [str(config) if word == "/etc/nats/nats.conf" else word for word in SERVICES[name]["command"]]
        with (tmp_path / f"{name}.log").open("wb") as log:
            started.append(subprocess.Popen([BIN / "nats-server", *options], stdout=log, stderr=log))
    yield ports
    for server in started:
        server.terminate()
        server.wait()


@pytest.mark.parametrize("name", SERVERS)
async def test_a_server_accepts_large_messages_and_answers_its_health_check(servers, name):
    client_port, http_port = servers[name]
    connection = await connect(f"nats://127.0.0.1:{client_port}", "test")
    assert connection.client.max_payload == MAX_PAYLOAD
    assert (await connection.jetstream.account_info()).streams == 0
    await connection.close()
    url = SERVICES[name]["healthcheck"]["test"][-1].replace(":8222", f":{http_port}")
    answer = await asyncio.to_thread(urllib.request.urlopen, url, timeout=5)
    with answer:
        assert answer.status == 200
    with await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{http_port}/varz", timeout=5) as answer:
        assert json.load(answer)["server_name"] == name


def start(name: str, servers: dict[str, tuple[int, int]], metrics_port: int, log: Path) -> subprocess.Popen[bytes]:
    """Start a service as compose does, with addresses and files of this machine in place of the containers'."""
    service = SERVICES[name]
    places = {f"nats://{server}:4222": f"nats://127.0.0.1:{ports[0]}" for server, ports in servers.items()}
    for volume in map(filled_in, service.get("volumes", ())):
        source, target, *_ = volume.split(":")
        places[target] = str(ROOT / source)

    def placed(text: str) -> str:
        text = filled_in(text)
        for there, here in places.items():
            text = text.replace(there, here)
        return text

    variables = {key: placed(value) for key, value in service["environment"].items()}
    variables |= {"DEVICESHARE_HEALTH_PORT": "0", "DEVICESHARE_METRICS_ADDRESS": "127.0.0.1"}
    variables |= {"DEVICESHARE_METRICS_PORT": str(metrics_port)}
    command = [sys.executable, "-m", *map(placed, service["command"])]
    with log.open("wb") as output:
        return subprocess.Popen(command, env={**os.environ, **variables}, stdout=output, stderr=output)


def test_the_containers_place_the_examples_and_show_the_pods(servers, tmp_path):
    (port,) = free_ports(1)
    processes = {}
    try:
        for name in OURS:
            processes[name] = start(name, servers, port, tmp_path / f"{name}.log")
        url, bound = f"http://127.0.0.1:{port}/api/v1/pods", set()
        until = time.monotonic() + 60
        while not bound >= {"gpu-pod1", "hami-pod", "vgpu-training-trainer-0"}:
            assert time.monotonic() < until, bound
            with suppress(OSError), urllib.request.urlopen(url, timeout=5) as answer:
                bound = {pod["name"] for pod in json.load(answer)["items"] if pod["state"] == "Bound"}
            time.sleep(0.1)
    finally:
        for process in processes.values():
            process.terminate()
        statuses = {name: process.wait(20) for name, process in processes.items()}
    assert statuses == dict.fromkeys(OURS, 0)
