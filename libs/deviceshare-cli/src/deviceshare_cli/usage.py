"""``deviceshare usage``: who used how many cards for how long, from Prometheus."""

import asyncio
import csv
import io
import re
from collections.abc import Mapping
from http.client import HTTPException
from typing import Literal

import msgspec
from deviceshare.model import describe_error
from deviceshare_metrics.holders import CARDS_METRIC, HOLDER_LABELS, MEMORY_METRIC, RECORDED

from deviceshare_cli.endpoint import Endpoint, check_url
from deviceshare_cli.errors import CommandError
from deviceshare_cli.json_api import get
from deviceshare_cli.output import indented_json, lines_text
from deviceshare_cli.reports import table_lines

By = Literal["namespace", "queue", "model", "owner-kind"]
LABELS: Mapping[By, str] = {"namespace": "namespace", "queue": "queue", "model": "type", "owner-kind": "owner_kind"}
_STEP_MINUTES = 5
_DURATION = re.compile(r"([1-9]\d{0,4})(h|d|w)")


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """What was used in a time: cards × hours, and GiB of device memory × hours."""

    holder: str
    card_hours: float
    memory_gib_hours: float


class _Sample(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: list[_Sample]


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error: str = ""


def expression(metric: str, by: By, since: str) -> str:
    """Return the query of a metric's sum over a time, in its unit × hours: a sample each five minutes counts for them.

    An average would not do: it takes no account of the time in which a series did not exist. Replicas of the metrics
    service, and a new one beside its predecessor, have the same series.
    """
    samples = f"sum_over_time(({held(metric)})[{since}:{_STEP_MINUTES}m])"
    return f"sum by ({LABELS[by]}) ({samples}) * {_STEP_MINUTES} / 60"


def held(metric: str) -> str:
    """Return the query of who holds how much.

    Where there are no recorded samples at all, because the rules were not loaded then, those of the service count. They
    do not fill in single series: a card that changes hands is already of the new holder there, and still of the old one
    among what is recorded.
    """
    recorded, exposed = (f"max by ({', '.join(HOLDER_LABELS)}) ({each})" for each in (RECORDED[metric], metric))
    return f"{recorded} or {exposed} unless on () {RECORDED[metric]}"


async def run_usage(prometheus: Endpoint, since: str, by: By, output: str) -> int:
    """Print the usage and return the exit status; ``output`` is ``table``, ``csv`` or ``json``."""
    if _DURATION.fullmatch(since) is None:
        raise CommandError(f"--since {since}: expected a number of hours, days or weeks, such as 12h, 30d or 4w")
    check_url("--prometheus", prometheus.url)
    cards, memory = await asyncio.gather(
        *(_query(prometheus, expression(metric, by, since), LABELS[by]) for metric in (CARDS_METRIC, MEMORY_METRIC))
    )
    found = [
        Usage(holder=name, card_hours=round(hours, 2), memory_gib_hours=round(memory.get(name, 0.0) / 2**30, 2))
        for name, hours in sorted(cards.items(), key=lambda item: (-item[1], item[0]))
        if hours
    ]
    head = (by.upper().replace("-", " "), "CARD-HOURS", "MEMORY GIB-HOURS")
    rows = [(each.holder or "others", f"{each.card_hours:.2f}", f"{each.memory_gib_hours:.2f}") for each in found]
    if output == "json":
        print(indented_json({"since": since, "by": by, "usage": found}))
    elif output == "csv":
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [(by.replace("-", "_"), "card_hours", "memory_gib_hours"), *rows]
        )
        print(text.getvalue(), end="")
    else:
        print(lines_text(table_lines((head, rows)) or [f"Prometheus knows of no usage in the last {since}."]))
    return 0


async def _query(prometheus: Endpoint, query: str, label: str) -> dict[str, float]:
    """Return the values of an instant query by a label. Raises CommandError."""
    try:
        status, body = await asyncio.to_thread(get, prometheus, "/api/v1/query", [("query", query)])
    except (HTTPException, OSError) as error:
        raise CommandError(f"Prometheus at {prometheus.url} does not answer: {describe_error(error)}") from None
    try:
        answer = msgspec.json.decode(body, type=_Answer)
    except msgspec.MsgspecError:
        raise CommandError(f"{prometheus.url} answered with status {status}, and not as Prometheus does") from None
    if "too many samples" in answer.error:
        raise CommandError(
            f"Prometheus at {prometheus.url} may not load so many samples: give it a larger --query.max-samples, "
            "or ask for less time with --since"
        )
    if answer.data is None or answer.data.result_type != "vector":
        raise CommandError(f"Prometheus at {prometheus.url} refuses with status {status}: {answer.error}")
    return {each.metric.get(label, ""): float(each.value[1]) for each in answer.data.result}
