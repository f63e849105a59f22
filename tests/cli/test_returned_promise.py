"""A PodGroup that can never run gives back what its queue promised it, and commands show that and why."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.promises import conf, never_and_later
from support.system import running_system
from support.waiting import until

pytestmark = pytest.mark.system


async def test_events_and_the_group_say_that_the_promise_went_back_and_why(tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    (tmp_path / "cluster" / "objects.yaml").write_text(yaml.safe_dump_all(never_and_later()))
    (tmp_path / "x.conf").write_text(conf(returns=True))
    options = ("--cluster", f"local:{tmp_path / 'cluster'}", "--conf", str(tmp_path / "x.conf"))
    with running_system(tmp_path, *options) as system:

        def events() -> list[dict[str, Any]]:
            found = json.loads(system.out("get", "events", "-A", "-o", "json"))["items"]
            return [each for each in found if each["reason"] == "PromiseReturned"]

        (event,) = await until(events)
        assert (event["involvedObject"]["kind"], event["involvedObject"]["name"]) == ("PodGroup", "never")
        assert event["message"].startswith("The PodGroup gave back what queue 'q' promised it, for others: it cannot ")
        assert "asked 20000 MiB, the largest card that the pod may use has 10000 MiB" in event["message"]
        shown = "the PodGroup gave back what its queue promised it"
        await until(lambda: shown in system.out("explain", "podgroup", "never"))
        assert "PromiseReturned" in system.out("describe", "podgroup", "never")
