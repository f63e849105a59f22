"""The rules and their test cases, the dashboard, and the names that both use."""

import json
import re
from pathlib import Path
from typing import Any

import yaml
from support.charts import FILES
from support.promtool import promtool

CASES = Path(__file__).with_name("rules_test.yaml")
PAGE = (Path(__file__).parents[2] / "docs" / "monitoring.md").read_text()
_NAME = re.compile(r"\b(?:deviceshare|volcano|process)_[a-z0-9_]+")


def rules() -> list[dict[str, Any]]:
    found: dict[str, Any] = yaml.safe_load((FILES / "rules.yaml").read_text())
    return [rule for group in found["groups"] for rule in group["rules"]]


def documented(name: str) -> bool:
    return re.sub(r"_(bucket|count|sum)$", "", name) in PAGE


def test_the_rules_are_valid() -> None:
    checked = promtool("check", "rules", "rules.yaml", directory=FILES)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_each_alert_fires_when_it_should() -> None:
    tested = promtool("test", "rules", CASES.name, directory=CASES.parent)
    assert tested.returncode == 0, tested.stdout + tested.stderr


def test_each_alert_has_a_case_that_fires_and_is_documented() -> None:
    cases: dict[str, Any] = yaml.safe_load(CASES.read_text())
    fires = {
        each["alertname"] for case in cases["tests"] for each in case.get("alert_rule_test", ()) if each["exp_alerts"]
    }
    alerts = {rule["alert"] for rule in rules() if "alert" in rule}
    assert fires == alerts
    assert [name for name in sorted(alerts) if name not in PAGE] == []


def test_rules_and_dashboard_use_documented_metrics() -> None:
    dashboard: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text())
    expressions = [rule["expr"] for rule in rules()]
    expressions += [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    assert len(expressions) > 30
    names = {name for expression in expressions for name in _NAME.findall(expression)}
    assert [name for name in sorted(names) if not documented(name)] == []


def test_the_dashboard_can_be_imported() -> None:
    dashboard: dict[str, Any] = json.loads((FILES / "dashboard.json").read_text())
    assert dashboard["uid"] == "deviceshare"
    assert dashboard["schemaVersion"] >= 39
    panels = dashboard["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        where = panel["gridPos"]
        assert where["x"] + where["w"] <= 24
        if panel["type"] != "row":
            assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
            assert panel["title"]
            assert panel["targets"]
    variables = {each["name"] for each in dashboard["templating"]["list"]}
    used = set(re.findall(r"\$(?:\{)?(\w+)", json.dumps([panel.get("targets") for panel in panels])))
    assert used - {"__rate_interval", "datasource"} <= variables
