"""`deviceshare snapshot` leaves out the kinds of Dynamic Resource Allocation that the user may not list, no others."""

from contextlib import AsyncExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest
from deviceshare_cli.errors import CommandError
from deviceshare_cli.reading.kinds import DEVICE_KINDS
from deviceshare_cli.reading.live import LiveReader
from deviceshare_cli.reading.snapshot import KINDS, take_snapshot
from deviceshare_cli.runfile import Run
from deviceshare_cluster.interface import Cluster, ClusterError


class Listed:
    """A cluster whose user may not list some kinds."""

    def __init__(self, *refused: str, final: bool = True) -> None:
        self.refused, self.final = refused, final

    async def list(self, kind: str) -> list[dict[str, Any]]:
        if kind in self.refused:
            raise ClusterError(f"cannot list {kind}: 403 Forbidden", final=self.final)
        return [{"kind": kind, "metadata": {"name": "a"}}]


def reader_of(cluster: Listed, monkeypatch: pytest.MonkeyPatch) -> LiveReader:
    async def connected(_: LiveReader) -> Cluster:
        return cast("Cluster", cluster)

    async def no_messages(*_: object) -> list[Any]:
        return []

    monkeypatch.setattr(LiveReader, "_connected", connected)
    monkeypatch.setattr(LiveReader, "messages", no_messages)
    return LiveReader(cast("Run", SimpleNamespace(title="", schedulers=())), AsyncExitStack())


async def test_kinds_for_dra_without_the_permission_are_left_out_with_a_warning_each(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    refused = [each.kind for each in DEVICE_KINDS]
    assert "ResourceClaim" in refused
    taken = await take_snapshot(reader_of(Listed(*refused), monkeypatch))
    assert {kind for kind, objects in taken.objects.items() if objects} == {*KINDS} - {*refused}
    warnings = capsys.readouterr().err.splitlines()
    assert len(warnings) == len(refused)
    assert warnings[0] == (
        "warning: the snapshot has no ResourceClaim: it needs the permission to list "
        "resourceclaims.resource.k8s.io: cannot list ResourceClaim: 403 Forbidden"
    )


@pytest.mark.parametrize(("kind", "final"), [("Pod", True), ("ResourceClaim", False)])
async def test_another_kind_or_a_cluster_that_does_not_answer_is_an_error(
    kind: str, final: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(CommandError, match=f"cannot list {kind}"):
        await take_snapshot(reader_of(Listed(kind, final=final), monkeypatch))
