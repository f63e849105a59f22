"""`deviceshare usage`: what Prometheus makes of the query, and what the command makes of its answer."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from deviceshare_cli.main import app
from deviceshare_cli.usage import expression, held
from deviceshare_metrics.holders import CARDS_METRIC, HOLDER_LABELS, MEMORY_METRIC, RECORDED
from support.promtool import promtool
from typer.testing import CliRunner, Result

RULES = Path(__file__).parents[2] / "deploy/helm/deviceshare/files/rules.yaml"
TOO_MANY = "query processing would load too many samples into memory in query execution"
"""ErrTooManySamples of Prometheus' promql/engine.go."""


def series(instance: str, namespace: str, model: str, values: str) -> dict[str, str]:
    kind = {"red": "Job", "blue": "PyTorchJob"}[namespace]
    labels = f'instance="{instance}",namespace="{namespace}",owner_kind="{kind}",queue="q",type="{model}"'
    return {"series": f"{CARDS_METRIC}{{{labels}}}", "values": values}


def test_the_query_adds_up_cards_and_hours(tmp_path: Path) -> None:
    case = {
        "interval": "1m",
        "input_series": [
            # Two replicas of the metrics service have the same cards. Ten hours in all.
            series("a", "red", "A100", "2x600"),
            series("b", "red", "A100", "2x600"),
            series("a", "red", "T4", "0.5x120 _x480"),  # two hours, then it is gone
            series("a", "blue", "A100", "_x300 4x300"),  # five hours
        ],
        "promql_expr_test": [
            {
                "expr": f"round({expression(CARDS_METRIC, 'namespace', '12h')})",
                "eval_time": "10h",
                "exp_samples": [
                    {"labels": '{namespace="red"}', "value": 2 * 10 + 1},
                    {"labels": '{namespace="blue"}', "value": 4 * 5},
                ],
            },
            {
                "expr": f"round({expression(CARDS_METRIC, 'model', '1h')})",
                "eval_time": "10h",
                "exp_samples": [{"labels": '{type="A100"}', "value": 6}],
            },
            {
                "expr": f"round({expression(CARDS_METRIC, 'owner-kind', '1h')})",
                "eval_time": "10h",
                "exp_samples": [
                    {"labels": '{owner_kind="Job"}', "value": 2},
                    {"labels": '{owner_kind="PyTorchJob"}', "value": 4},
                ],
            },
        ],
    }
    (tmp_path / "usage.yaml").write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [case]}))
    tested = promtool("test", "rules", "usage.yaml", directory=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_the_rules_record_what_the_service_exposes() -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    found = {rule["record"]: rule["expr"] for rule in rules if rule.get("record") in RECORDED.values()}
    labels = ", ".join(HOLDER_LABELS)
    assert found == {RECORDED[each]: f"max by ({labels}) ({each})" for each in (CARDS_METRIC, MEMORY_METRIC)}


def test_the_dashboard_shows_who_holds_cards_also_without_the_rules() -> None:
    panels = json.loads((RULES.parent / "dashboard.json").read_text())["panels"]
    shown = {each["title"]: [target["expr"] for target in each.get("targets", ())] for each in panels}
    for holder in ("namespace", "queue"):
        assert shown[f"Cards held by {holder}"] == [f"sum by ({holder}, type) ({held(CARDS_METRIC)})"]


def test_recorded_samples_count_once_also_where_those_of_the_service_are_gone(tmp_path: Path) -> None:
    left = {"series": f'{RECORDED[CARDS_METRIC]}{{namespace="blue",queue="q",type="A100"}}', "values": "3x180 _x420"}
    case = {
        "interval": "1m",
        "input_series": [
            # Recorded by the rules, with a restart of the metrics service, which stops for six minutes: ten hours.
            series("a", "red", "A100", "2x300 stale _x5 2x294"),
            left,  # Three hours, of which only the recorded samples are left.
        ],
        "promql_expr_test": [
            {
                "expr": f"round({expression(CARDS_METRIC, 'namespace', '12h')})",
                "eval_time": "10h",
                "exp_samples": [
                    {"labels": '{namespace="red"}', "value": 20},
                    {"labels": '{namespace="blue"}', "value": 9},
                ],
            },
        ],
    }
    (tmp_path / "rules.yaml").write_text(RULES.read_text())
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "2m", "tests": [case]}
    (tmp_path / "usage.yaml").write_text(yaml.safe_dump(tests))
    tested = promtool("test", "rules", "usage.yaml", directory=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_cards_that_change_hands_between_two_recordings_count_once(tmp_path: Path) -> None:
    # Recorded every two minutes: at the sample of minute 5, the record of minute 4 names the holder before.
    case = {
        "interval": "1m",
        "input_series": [series("a", "red", "A100", "2x4 stale"), series("a", "blue", "A100", "_x5 2x60")],
        "promql_expr_test": [
            {
                "expr": f"round(12 * sum({expression(CARDS_METRIC, 'namespace', '1h')}))",
                "eval_time": "10m",
                "exp_samples": [{"labels": "{}", "value": 2 * 3}],
            },
        ],
    }
    (tmp_path / "rules.yaml").write_text(RULES.read_text())
    tests = {"rule_files": ["rules.yaml"], "evaluation_interval": "2m", "tests": [case]}
    (tmp_path / "usage.yaml").write_text(yaml.safe_dump(tests))
    tested = promtool("test", "rules", "usage.yaml", directory=tmp_path)
    assert tested.returncode == 0, tested.stdout + tested.stderr


@pytest.fixture
def prometheus() -> Iterator[tuple[str, list[Any], list[str]]]:
    """A server that gives the answers of the list in turn, by metric; and the queries that it got."""
    answers: list[Any] = []
    queries: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            (query,) = parse_qs(urlsplit(self.path).query)["query"]
            queries.append(query)
            status, body = answers[0 if CARDS_METRIC in query else -1]
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", answers, queries
    server.shutdown()
    server.server_close()


def vector(label: str, **values: str) -> tuple[int, Any]:
    result = [{"metric": {label: name} if name != "_" else {}, "value": [1.0, value]} for name, value in values.items()]
    return 200, {"status": "success", "data": {"resultType": "vector", "result": result}}


def usage(url: str, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["usage", "--prometheus", url, *arguments])


def test_holders_with_most_come_first(prometheus: tuple[str, list[Any], list[str]]) -> None:
    url, answers, queries = prometheus
    answers += [
        vector("namespace", red="3", blue="20.5", _="1", none="0"),
        vector("namespace", red=str(2**30), blue=str(5 * 2**30)),
    ]
    assert [line.split() for line in usage(url).stdout.splitlines()] == [
        ["NAMESPACE", "CARD-HOURS", "MEMORY", "GIB-HOURS"],
        ["blue", "20.50", "5.00"],
        ["red", "3.00", "1.00"],
        ["others", "1.00", "0.00"],
    ]
    assert usage(url, "-o", "csv", "--since", "4w").stdout.splitlines()[:2] == [
        "namespace,card_hours,memory_gib_hours",
        "blue,20.50,5.00",
    ]
    assert all("[30d:5m]" in query for query in queries[:2])
    assert all("[4w:5m]" in query for query in queries[2:])
    answers[:] = [vector("owner_kind", Job="2"), vector("owner_kind", Job=str(2**30))]
    assert usage(url, "--by", "owner-kind").stdout.splitlines()[0].startswith("OWNER KIND   CARD-HOURS")
    assert usage(url, "--by", "owner-kind", "-o", "csv").stdout.splitlines()[0].startswith("owner_kind,card_hours")
    answers[:] = [vector("namespace", blue="20.5"), vector("namespace", blue=str(5 * 2**30))]
    (first, *_) = json.loads(usage(url, "-o", "json").stdout)["usage"]
    assert first == {"holder": "blue", "card_hours": 20.5, "memory_gib_hours": 5.0}


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((400, {"status": "error", "errorType": "bad_data", "error": "parse error"}), "with status 400: parse error"),
        (
            (422, {"status": "error", "errorType": "execution", "error": TOO_MANY}),
            "give it a larger --query.max-samples, or ask for less time with --since",
        ),
        ((502, b"<html>"), "answered with status 502, and not as Prometheus does"),
    ],
)
def test_errors_name_prometheus(prometheus: tuple[str, list[Any], list[str]], answer: Any, error: str) -> None:
    url, answers, _ = prometheus
    answers.append(answer)
    assert error in str(usage(url).exception)


def test_no_usage_and_a_wrong_time_are_said(prometheus: tuple[str, list[Any], list[str]]) -> None:
    url, answers, _ = prometheus
    answers.append(vector("queue"))
    assert usage(url, "--by", "queue").stdout == "Prometheus knows of no usage in the last 30d.\n"
    assert "--since 30: expected a number of hours, days or weeks" in str(usage(url, "--since", "30").exception)
    assert "Prometheus at http://127.0.0.1:1 does not answer" in str(usage("http://127.0.0.1:1").exception)


@pytest.mark.parametrize("url", ["127.0.0.1:9090", "http://h:99999", "http://h:x", "ftp://h", "http://u@h", ""])
def test_an_address_that_is_none_is_named(url: str) -> None:
    assert f"--prometheus {url!r} is not valid: expected http://HOST:PORT" in str(usage(url).exception)
