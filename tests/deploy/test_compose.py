"""compose.yaml and deploy/ name only existing things: modules, options, variables, files, endpoints."""

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from deviceshare_bus.messages.permissions import USERS
from deviceshare_bus.wire.connection import MAX_PAYLOAD, connect
from deviceshare_bus.wire.credentials import ANONYMOUS, of_directory
from deviceshare_cli.credentials.certificates import end_of
from deviceshare_cli.ports import free_port
from opentelemetry.sdk import environment_variables
from support import charts, deploy
from support.charts import FILES
from support.promtool import promtool

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())
SERVICES = COMPOSE["services"]
OURS = [name for name, service in SERVICES.items() if service.get("entrypoint") == ["python", "-m"]]
MONITORING = {"collector", "jaeger", "prometheus", "grafana"}
SERVERS = ["bus", "cluster"]
DOCKERFILE = (ROOT / "deploy" / "Dockerfile").read_text()


def filled_in(text: str) -> str:
    """Replace a variable by its default, as compose does: every variable has one."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    assert "$" not in text, text
    return text


def environment(service: dict) -> dict[str, str]:
    return {name: filled_in(value) for name, value in service["environment"].items()}


def test_the_file_follows_the_compose_specification():
    """With interpolation, references between services, and unknown fields."""
    done = subprocess.run([charts.tool("compose"), "compose.yaml"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    misspelt = (ROOT / "compose.yaml").read_text().replace("healthcheck:", "healthchek:", 1)
    place = charts.tool("compose").parent / "misspelt.yaml"
    place.write_text(misspelt)
    done = subprocess.run([charts.tool("compose"), str(place)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0


def test_the_bus_its_setup_four_services_and_a_cluster_are_defined():
    four = {"inventory", "placement", "binder", "metrics"}
    assert set(SERVICES) == {"credentials", "bus", "setup", "cluster", "local-cluster"} | four | MONITORING
    assert set(OURS) == {"setup", "local-cluster"} | four


@pytest.mark.parametrize("name", OURS)
def test_each_command_is_a_program_with_these_options(name):
    module, *arguments = map(filled_in, SERVICES[name]["command"])
    shown = deploy.help_of(module, arguments)
    for argument in arguments:
        if argument.startswith("--"):
            assert argument in shown


@pytest.mark.parametrize("name", OURS)
def test_each_variable_is_read_by_the_code(name):
    for variable in SERVICES[name]["environment"]:
        assert hasattr(environment_variables, variable) or deploy.is_read(variable), variable


def test_images_have_exact_versions():
    for name, service in SERVICES.items():
        if name not in OURS and service["image"] != "deviceshare-cli":
            assert re.search(r":v?\d+\.\d+\.\d+", service["image"]), service["image"]


def test_replicas_can_be_added():
    """`--scale` needs no name, port or instance to be taken by one replica."""
    for name in ("inventory", "placement", "binder"):
        service = SERVICES[name]
        assert not {"container_name", "hostname", "ports"} & set(service)
        assert "DEVICESHARE_INSTANCE" not in service["environment"]
    prometheus = yaml.safe_load((ROOT / "deploy" / "compose" / "prometheus.yaml").read_text())
    found = {
        (host, each["port"])
        for job in prometheus["scrape_configs"]
        for each in job["dns_sd_configs"]
        for host in each["names"]
    }
    port = int(environment(SERVICES["placement"])["DEVICESHARE_HEALTH_PORT"])
    assert found == {(name, port) for name in ("inventory", "placement", "binder")} | {("metrics", 8080)}


def test_prometheus_accepts_its_configuration(tmp_path):
    """With addresses in place of names, whose look-up is not part of the promtool that is built for the tests."""
    configuration = yaml.safe_load((ROOT / "deploy" / "compose" / "prometheus.yaml").read_text())
    for job in configuration["scrape_configs"]:
        (found,) = job.pop("dns_sd_configs")
        assert set(found) == {"names", "type", "port"}
        assert found["type"] == "A"
        job["static_configs"] = [{"targets": [f"{name}:{found['port']}" for name in found["names"]]}]
    (tmp_path / "prometheus.yaml").write_text(yaml.safe_dump(configuration))
    (tmp_path / "rules.yaml").write_text((FILES / "rules.yaml").read_text())
    done = promtool("check", "config", "prometheus.yaml", directory=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_service_has_the_credentials_of_its_own_user():
    for name in OURS:
        given = [each["volume"]["subpath"] for each in volumes(name) if each["target"] == "/etc/deviceshare/bus"]
        assert given == ([] if name == "local-cluster" else [f"credentials/{name}"])
        if given:
            assert name in USERS


def test_services_are_restarted_and_wait_for_the_streams():
    for name in set(OURS) - {"setup", "local-cluster"}:
        service = SERVICES[name]
        assert service["restart"] == "always"
        assert service["depends_on"]["setup"]["condition"] == "service_started"
        port = environment(service)["DEVICESHARE_HEALTH_PORT"]
        assert f"http://127.0.0.1:{port}/healthz" in " ".join(service["healthcheck"]["test"])


def test_the_local_cluster_is_restarted_and_waits_for_its_server():
    service = SERVICES["local-cluster"]
    assert service["restart"] == "always"
    assert service["depends_on"] == {"cluster": {"condition": "service_healthy"}}
    assert service["healthcheck"] == {"disable": True}, "it has no endpoint"


def volumes(name: str) -> list[dict]:
    """Return the volumes of a service in the long form."""
    found = []
    for volume in SERVICES[name].get("volumes", ()):
        if isinstance(volume, str):
            source, target, *options = filled_in(volume).split(":")
            volume = {"source": source, "target": target, "read_only": options == ["ro"]}
        found.append(volume)
    return found


def test_each_server_has_a_volume_of_its_own():
    stores = {name: [each["source"] for each in volumes(name) if each["target"] == "/data"] for name in SERVERS}
    assert stores == {name: [name] for name in SERVERS}
    assert set(COMPOSE["volumes"]) == {*SERVERS, "credentials", "prometheus"}


def test_only_pages_can_be_reached_and_only_from_this_machine():
    published = {name: service["ports"] for name, service in SERVICES.items() if "ports" in service}
    port = environment(SERVICES["metrics"])["DEVICESHARE_METRICS_PORT"]
    assert published.pop("metrics") == [f"127.0.0.1:8080:{port}"]
    assert set(published) == {"grafana", "jaeger", "prometheus"}
    assert all(each.startswith("127.0.0.1:") for ports in published.values() for each in ports)


def test_mounted_files_exist():
    for name, service in SERVICES.items():
        for volume in volumes(name):
            assert volume["source"] in COMPOSE["volumes"] or (ROOT / volume["source"]).exists(), volume
            if volume["target"].startswith("/etc"):
                assert volume["read_only"]
            if name in OURS and volume["source"] != "credentials":
                assert volume["target"] in service["command"]


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


def test_targets_of_the_image_exist():
    targets = set(re.findall(r"^FROM .+ AS (.+)$", DOCKERFILE, re.MULTILINE))
    for name in (*OURS, "credentials"):
        build = SERVICES[name]["build"]
        assert build["dockerfile"] == "deploy/Dockerfile"
        assert SERVICES[name]["image"] == f"deviceshare-{build['target']}"
        assert build["target"] in targets


@pytest.fixture
def credentials(tmp_path: Path) -> Path:
    """Run the one-shot service `credentials` as a process; return its volume.

    An earlier container was killed while it wrote: its rest is no complete directory.
    """
    service, volume = SERVICES["credentials"], tmp_path / "credentials"
    (target,) = (each["target"] for each in volumes("credentials"))
    command = [str(BIN / "deviceshare"), *(word.replace(target, str(volume)) for word in service["command"])]
    (volume / ".credentials.new" / "server").mkdir(parents=True)
    (volume / ".credentials.new" / "server" / "auth.conf").touch()
    subprocess.run(command, check=True, timeout=60)
    # `docker compose up` a second time, with a volume of a version with other permissions.
    users = volume / "credentials" / "server" / "auth.conf"
    text = users.read_text()
    users.write_text(text.replace('"$JS.API.INFO", ', ""))
    subprocess.run(command, check=True, timeout=60)
    assert users.read_text() == text
    end = end_of((users.parent / "tls.crt").read_text())
    assert end - datetime.now(UTC) > timedelta(days=3600)
    return volume


@pytest.fixture
def servers(tmp_path: Path, credentials: Path) -> Iterator[dict[str, tuple[int, int]]]:
    """Start both servers as compose does, on free ports; return the ports for clients and for HTTP, by name."""
    started, ports = [], {}
    for name in SERVERS:
        client, http = ports[name] = free_port(), free_port()
        directory = tmp_path / f"{name}.conf.d"
        directory.mkdir()
        for volume in volumes(name):
            if volume["target"] == "/etc/nats/secret":
                (directory / "secret").symlink_to(credentials / volume["volume"]["subpath"])
            elif volume["target"].startswith("/etc/nats/"):
                text = (ROOT / volume["source"]).read_text().replace("/etc/nats", str(directory))
                text = text.replace('"0.0.0.0:4222"', f'"127.0.0.1:{client}"').replace("10GB", "1GB")
                text = text.replace('"127.0.0.1:8222"', f'"127.0.0.1:{http}"').replace(
                    '"/data"', f'"{tmp_path}/{name}"'
                )
                (directory / Path(volume["target"]).name).write_text(text)
        options = [word.replace("/etc/nats", str(directory)) for word in SERVICES[name]["command"]]
        with (tmp_path / f"{name}.log").open("wb") as log:
            started.append(subprocess.Popen([BIN / "nats-server", *options], stdout=log, stderr=log))
    yield ports
    for server in started:
        server.terminate()
        server.wait()


@pytest.mark.parametrize("name", SERVERS)
async def test_a_server_accepts_large_messages_and_answers_its_health_check(servers, credentials, name):
    client_port, http_port = servers[name]
    own = of_directory(credentials / "credentials", "reader") if name == "bus" else ANONYMOUS
    scheme = "tls" if name == "bus" else "nats"
    connection = await connect(f"{scheme}://localhost:{client_port}", "test", credentials=own)
    assert connection.client.max_payload == MAX_PAYLOAD
    assert (await connection.jetstream.account_info()).streams == 0
    await connection.close()
    url = SERVICES[name]["healthcheck"]["test"][-1].replace(":8222", f":{http_port}")
    answer = await asyncio.to_thread(urllib.request.urlopen, url, timeout=5)
    with answer:
        assert answer.status == 200
    with await asyncio.to_thread(urllib.request.urlopen, f"http://127.0.0.1:{http_port}/varz", timeout=5) as answer:
        assert json.load(answer)["server_name"] == name


def start(
    name: str, servers: dict[str, tuple[int, int]], credentials: Path, metrics_port: int, log: Path
) -> subprocess.Popen[bytes]:
    """Start a service as compose does, with addresses and files of this machine in place of the containers'."""
    service = SERVICES[name]
    places = {f"//{server}:4222": f"//localhost:{ports[0]}" for server, ports in servers.items()}
    for volume in volumes(name):
        here = credentials / volume["volume"]["subpath"] if "volume" in volume else ROOT / volume["source"]
        places[volume["target"]] = str(here)

    def placed(text: str) -> str:
        text = filled_in(text)
        for there, here in places.items():
            text = text.replace(there, here)
        return text

    variables = {key: placed(value) for key, value in service["environment"].items()}
    variables |= {"DEVICESHARE_HEALTH_PORT": "0", "DEVICESHARE_METRICS_ADDRESS": "127.0.0.1"}
    variables |= {"DEVICESHARE_METRICS_PORT": str(metrics_port), "DEVICESHARE_HEALTH_ADDRESS": "127.0.0.1"}
    variables["OTEL_EXPORTER_OTLP_ENDPOINT"] = ""
    command = [sys.executable, "-m", *map(placed, service["command"])]
    with log.open("wb") as output:
        return subprocess.Popen(command, env={**os.environ, **variables}, stdout=output, stderr=output)


@pytest.mark.system
def test_the_containers_place_the_examples_and_show_the_pods(servers, credentials, tmp_path):
    port = free_port()
    processes = {}
    try:
        for name in OURS:
            processes[name] = start(name, servers, credentials, port, tmp_path / f"{name}.log")
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
