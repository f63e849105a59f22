"""The text formats of ``/metrics``, and prometheus_client's encoders, which take a collector."""

from collections.abc import Iterable

from prometheus_client import Metric
from prometheus_client.registry import Collector

PLAIN = "text/plain"
_VERSION = "1.0.0"
"""The version of OpenMetrics, and of the text format with escaping, that prometheus_client writes."""
_KINDS = ("application/openmetrics-text", PLAIN)
_ESCAPINGS = ("underscores", "allow-utf-8", "dots", "values")
FORMATS = (PLAIN, *(f"{kind}; version={_VERSION}; escaping={each}" for kind in _KINDS for each in _ESCAPINGS))
"""All formats, each as a header ``Accept`` that selects it."""


class Families(Collector):
    """Gives metric families to an encoder."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """Return the families."""
        return self._families


def accepted_format(accept: str) -> str:
    """Return the first of :data:`FORMATS` that ``accept`` (a request's header) names, or :data:`PLAIN`.

    prometheus_client's ``choose_encoder`` repeats any version of the client in its content type, and raises TypeError
    for some.
    """
    for entry in accept.split(","):
        kind, *parameters = (part.strip() for part in entry.split(";"))
        values = dict(parameter.split("=", 1) for parameter in parameters if "=" in parameter)
        # OpenMetrics needs no version, as in prometheus_client.
        version = values.get("version") or (_VERSION if kind != PLAIN else "")
        escaping = values.get("escaping", "")
        found = f"{kind}; version={version}; escaping={escaping if escaping in _ESCAPINGS else 'underscores'}"
        if found in FORMATS:
            return found
    return PLAIN
