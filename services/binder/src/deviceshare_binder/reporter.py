"""Tells the cluster what users read on its objects: conditions, Events, statuses; so many a second."""

import asyncio
import logging
import time
from collections.abc import Callable

from deviceshare.model import Backoff
from deviceshare_cluster.interface import Cluster, ClusterError, EventRecord

from deviceshare_binder.groups import Groups, StatusUpdate
from deviceshare_binder.reports import ReportPending, Reports, ReportScheduled

log = logging.getLogger("deviceshare.binder")

REPORT_INTERVAL = 0.05
"""Seconds between two portions of reports about pods."""
GIVE_WAY = 4
"""While pods are being bound their reports are slower by this: a binding is worth more than an Event."""
STATUS_INTERVAL = 0.5
"""Seconds between two looks at what PodGroups and Queues say."""
RETRY = Backoff(0.1, 5.0)
"""Seconds between two tries while the cluster does not answer."""
REPORT_TRIES = 5


class Reporter:
    """Writes what ``reports`` and ``groups`` have to say, at most ``per_second`` of each a second.

    ``busy`` tells whether the API server has something better to do.
    """

    def __init__(
        self, cluster: Cluster, reports: Reports, groups: Groups, per_second: float, busy: Callable[[], bool]
    ) -> None:
        self._cluster = cluster
        self._reports = reports
        self._groups = groups
        self._busy = busy
        self._portion = max(1, int(per_second * REPORT_INTERVAL))
        self._statuses_at_once = max(1, int(per_second * STATUS_INTERVAL))
        self._writing = 0
        self._reported = asyncio.Event()
        self._changed = asyncio.Event()

    @property
    def open(self) -> int:
        """How much has to be told, or is on its way."""
        return self._reports.waiting + self._groups.waiting + self._writing

    def look(self) -> None:
        """There may be something to tell."""
        self._reported.set()
        self._changed.set()

    async def run(self) -> None:
        """Tell until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write_reports())
            group.create_task(self._write_statuses())

    async def _write_reports(self) -> None:
        """Tell pods where they are and why they wait: a full cluster has thousands of them."""
        while True:
            portion = max(1, self._portion // GIVE_WAY) if self._busy() else self._portion
            if reported := self._reports.take(portion):
                await asyncio.gather(*map(self._report, reported))
                await asyncio.sleep(REPORT_INTERVAL)
            else:
                self._reported.clear()
                await self._reported.wait()

    async def _write_statuses(self) -> None:
        """Write the status of PodGroups and Queues, each only as it is then."""
        while True:
            reported = [one for _ in range(self._statuses_at_once) if (one := self._groups.take()) is not None]
            if reported:
                await asyncio.gather(*map(self._write_status, reported))
                await asyncio.sleep(STATUS_INTERVAL)
            else:
                self._changed.clear()
                await self._changed.wait()

    async def _write_status(self, reported: StatusUpdate) -> None:
        self._writing += 1
        try:
            await self._cluster.set_status(
                reported.kind,
                reported.namespace,
                reported.name,
                reported.uid,
                dict(reported.status),
                condition=reported.condition._asdict() if reported.condition is not None else None,
                at=time.time(),
            )
        except ClusterError as error:
            log.debug(
                "cannot write the status of %s %s/%s yet: %s", reported.kind, reported.namespace, reported.name, error
            )
            self._groups.failed(reported)
        finally:
            self._writing -= 1

    async def _report(self, reported: ReportPending | ReportScheduled) -> None:
        """Tell a pod; what the cluster does not take is in the log, and said again with the next decision."""
        self._writing += 1
        try:
            for attempt in range(REPORT_TRIES):
                try:
                    await self._say(reported)
                    return
                except ClusterError as error:
                    log.debug("cannot report on %s/%s yet: %s", reported.namespace, reported.name, error)
                    await asyncio.sleep(RETRY.delay(attempt))
            log.warning("could not report on %s/%s: %s", reported.namespace, reported.name, reported.message)
            if isinstance(reported, ReportPending):
                self._reports.failed(reported)
        finally:
            self._writing -= 1

    async def _say(self, reported: ReportPending | ReportScheduled) -> None:
        now = time.time()
        warning, reason, once = True, "FailedScheduling", False
        if isinstance(reported, ReportScheduled):
            warning, reason, once = reported.warning, reported.reason, True
        else:
            await self._cluster.set_pod_condition(
                reported.namespace,
                reported.name,
                reported.uid,
                status=False,
                reason=reported.reason,
                message=reported.message,
                at=now,
            )
            if not reported.event:
                return
        await self._cluster.record_event(
            EventRecord(
                "Pod", reported.namespace, reported.name, reported.uid, warning, reason, reported.message, now, once
            )
        )
