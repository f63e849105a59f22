"""What ``describe`` says of a pod and of a ResourceClaim."""

from typing import Any

from deviceshare_cli.describing import description

NOW = 1_767_225_600.0 + 31 * 60
"""31 minutes after the start of 2026."""


class _Reader:
    now = NOW

    async def items(self, kind: type) -> tuple[Any, ...]:
        return ()

    async def objects(self, kind: str) -> list[Any]:
        return []


async def test_conditions_have_the_age_of_their_status() -> None:
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no room"}
    conditions = [waits | {"lastTransitionTime": "2026-01-01T00:00:00Z"}, {"type": "Ready", "status": "False"}]
    pod = {"kind": "Pod", "metadata": {"name": "a", "namespace": "default"}, "status": {"conditions": conditions}}
    lines = (await description(_Reader(), pod)).splitlines()  # type: ignore[arg-type]
    at = lines.index("Conditions:")
    assert [line.split() for line in lines[at + 1 : at + 4]] == [
        ["Type", "Status", "Since", "Reason", "Message"],
        ["PodScheduled", "False", "31m", "Unschedulable", "no", "room"],
        ["Ready", "False", "<unknown>", "<none>", "<none>"],
    ]


async def test_a_claim_has_the_binding_condition_that_is_missing() -> None:
    result = {"request": "r", "driver": "d", "pool": "p", "device": "far"}
    waits = {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}
    claim: dict[str, Any] = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "default"},
        "status": {"allocation": {"devices": {"results": [{**result, **waits}]}}},
    }

    async def binding() -> str:
        lines = (await description(_Reader(), claim)).splitlines()  # type: ignore[arg-type]
        return "".join(line.removeprefix("Binding:").strip() for line in lines if line.startswith("Binding:"))

    assert await binding() == "device d/p/far lacks the condition 'Attached'"
    of_device = {key: result[key] for key in ("driver", "pool", "device")}
    claim["status"]["devices"] = [{**of_device, "conditions": [{"type": "Failed", "status": "True"}]}]
    assert await binding() == "device d/p/far has the condition 'Failed'"
    claim["status"]["devices"][0]["conditions"][0]["type"] = "Attached"
    assert await binding() == ""
    claim["spec"] = {"devices": {"requests": "none"}}
    assert await binding() == ""
