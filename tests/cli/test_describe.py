"""What ``describe`` says of a pod."""

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
