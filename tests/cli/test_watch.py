"""``get -w`` prints what changes, and nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from deviceshare_cli import getting
from deviceshare_cli.errors import CommandError
from deviceshare_cli.reading.opening import Source
from deviceshare_cli.reading.reader import Target
from deviceshare_metrics import api
from msgspec.structs import replace

POD = api.Pod(
    namespace="default", name="a", uid="u", scheduler="volcano", node=None, state="Pending", devices=(),
    reason="no room", reason_at=100.0, queue="", group="", problems=(),
)  # fmt: skip


class _Reader:
    """Gives one answer after the other, then fails."""

    target = Target("", ("volcano",))
    now = 200.0

    def __init__(self, *pods: api.Pod) -> None:
        self._answers = iter(pods)

    async def items(self, kind: type) -> tuple[api.Pod, ...]:
        if (pod := next(self._answers, None)) is None:
            raise CommandError("the end")
        return (pod,)


async def watched(monkeypatch: pytest.MonkeyPatch, *pods: api.Pod) -> None:
    @asynccontextmanager
    async def opened(_: Source) -> AsyncIterator[_Reader]:
        yield _Reader(*pods)

    monkeypatch.setattr(getting, "opened", opened)
    monkeypatch.setattr(getting, "WATCH_INTERVAL", 0)
    with pytest.raises(CommandError, match="the end"):
        await getting.get(Source(None, None), ["pods", "a"], getting.GetOptions(watch=True, headers=False))


async def test_a_reason_that_is_decided_again_is_not_a_change(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await watched(
        monkeypatch,
        POD,
        replace(POD, reason_at=150.0),
        replace(POD, reason="no card", reason_at=160.0),
        replace(POD, reason="no card", reason_at=170.0),
    )
    reasons = [line.split("<none>")[-1].strip() for line in capsys.readouterr().out.splitlines()]
    assert reasons == ["no room (as of 100s ago)", "no card (as of 40s ago)"]
