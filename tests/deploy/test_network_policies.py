"""The NetworkPolicies of the chart allow exactly the arrows of docs/architecture.md."""

import re

import pytest
from support import charts

BUS, API = "bus", "the API server"
STREAMS = re.compile(r"CLUSTER|LEDGER|OUTCOME|EXPLAIN|streams")


def arrows() -> set[tuple[str, str]]:
    """Return who connects to what, by the table of services in docs/architecture.md."""
    text = (charts.ROOT / "docs" / "architecture.md").read_text().split("## Four services")[1].split("\n\n")[1]
    found = set()
    for row in text.splitlines()[2:]:
        service, reads, writes, _ = (cell.strip() for cell in row.strip("|").split("|"))
        if STREAMS.search(reads + writes):
            found.add((service, BUS))
        if "the cluster" in reads + writes:
            found.add((service, API))
    return found


def policies(options: str) -> dict[str, charts.Object]:
    objects = charts.rendered("--set", options) if options else charts.rendered()
    return {charts.key(obj)[2]: obj["spec"] for obj in objects if obj["kind"] == "NetworkPolicy"}


def name_of(selector: charts.Object) -> str:
    labels = selector["matchLabels"]
    assert set(labels) == {"app.kubernetes.io/name"}
    return str(labels["app.kubernetes.io/name"])


def allowed(found: dict[str, charts.Object]) -> set[tuple[str, str]]:
    """Return who may connect to what, except DNS and traces; both ends have to allow it."""
    out, into = set(), set()
    for spec in found.values():
        for rule in spec.get("egress", ()):
            ports = [port["port"] for port in rule["ports"]]
            if "to" not in rule and ports != [4318]:
                assert ports == [443, 6443]
                out.add((name_of(spec["podSelector"]), API))
            for peer in rule.get("to", ()):
                if ports[0] in ("nats", "routes"):
                    out.add((name_of(spec["podSelector"]), f"{name_of(peer['podSelector'])}"))
                else:
                    assert ports == [53, 53]
        for rule in spec.get("ingress", ()):
            (port,) = (port["port"] for port in rule["ports"])
            if port in ("nats", "routes"):
                into |= {(name_of(peer["podSelector"]), name_of(spec["podSelector"])) for peer in rule["from"]}
    assert {arrow for arrow in out if arrow[1] != API} == into
    return out


SETUP = ("setup", BUS)
CREDENTIALS = ("credentials", API)


def test_the_table_of_services_is_understood() -> None:
    services = {"inventory", "placement", "binder", "metrics"}
    assert {service for service, to in arrows() if to == BUS} == services
    assert {service for service, to in arrows() if to == API} == {"inventory", "binder"}


@pytest.mark.parametrize(
    ("options", "more"),
    [
        # metrics checks tokens.
        ("", {CREDENTIALS, ("metrics", API)}),
        ("metrics.access=secret,credentials.generate=false,tracing.endpoint=http://collector:4318", set()),
        ("metrics.access=secret,bus.servers=3", {CREDENTIALS, (BUS, BUS)}),
    ],
)
def test_the_policies_are_the_arrows(options: str, more: set[tuple[str, str]]) -> None:
    assert allowed(policies(options)) == arrows() | {SETUP} | more


@pytest.mark.parametrize(
    ("endpoint", "port"),
    [
        ("http://collector:4318", 4318),
        ("http://collector:4318/", 4318),
        ("http://collector:4318/v1/traces", 4318),
        ("http://[fd00::1]:4317/otlp", 4317),
        ("http://[fd00::4318]", 80),
        ("http://collector", 80),
        ("https://collector/otlp", 443),
    ],
)
def test_traces_may_be_sent_to_the_port_of_the_endpoint(endpoint: str, port: int) -> None:
    found = policies(f"tracing.endpoint={endpoint}")
    for name in ("inventory", "placement", "binder", "metrics"):
        ports = [each["port"] for rule in found[name]["egress"] if "to" not in rule for each in rule["ports"]]
        assert [each for each in ports if each != 6443][-1] == port


def test_prometheus_reaches_the_metrics_service_where_readers_are_restricted() -> None:
    team = "networkPolicy.readers.namespaces.team=a,networkPolicy.prometheus.pods.app=prometheus"
    (rule,) = policies(team)["metrics"]["ingress"]
    namespaces = [peer["namespaceSelector"]["matchLabels"] for peer in rule["from"]]
    assert namespaces == [{"team": "a"}, {"kubernetes.io/metadata.name": "monitoring"}]


def test_everything_else_is_denied() -> None:
    found = policies("")
    assert found["default-deny"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    for spec in found.values():
        assert set(spec["policyTypes"]) >= {way.title() for way in ("ingress", "egress") if way in spec}


def test_prometheus_and_readers_reach_the_ports_with_metrics() -> None:
    into = {
        name: [port["port"] for rule in spec.get("ingress", ()) for port in rule["ports"]]
        for name, spec in policies("").items()
    }
    assert into == {
        "default-deny": [],
        "dns": [],
        "credentials": [],
        "setup": [],
        "bus": ["nats"],
        "metrics": ["metrics"],
        "inventory": ["health"],
        "placement": ["health"],
        "binder": ["health"],
    }
