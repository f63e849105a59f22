"""``deviceshare lab bench kube``."""

from typing import Any

from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import Notices
from deviceshare_cli.output import indented_json, table
from deviceshare_cluster.interface import ClusterError

from deviceshare_lab.bench.kube.claims import measure_claims
from deviceshare_lab.bench.kube.measure import Size, measure


async def bench_kube(size: Size, timeout: float, *, claims: bool, as_json: bool) -> int:
    """Measure, with ResourceClaims or with cards, print, and return the exit status."""
    try:
        shown = await (measure_claims if claims else measure)(size, timeout, Notices())
    except ClusterError as error:
        raise CommandError(str(error)) from None
    except TimeoutError:
        raise CommandError(f"not done after {timeout:g} s") from None
    print(indented_json(shown) if as_json else (text_of_claims if claims else as_text)(shown))
    return 0


def as_text(shown: dict[str, Any]) -> str:
    """Return the measurements as a table."""
    load, alone, other = shown["load_average"], shown["without_plugins"], shown["kube_scheduler"]
    bound_by_other = "not measured: make node builds it" if other is None else str(other["bindings_per_second"])
    rows = [
        ("pods", f"{shown['pods']} on {shown['nodes']} nodes"),
        ("bindings/s beside device plugins", _rates(shown)),
        ("bindings/s without device plugins", _rates(alone)),
        ("bindings/s of kube-scheduler, without devices", bound_by_other),
        ("CPU ms per pod beside device plugins", _used(shown)),
        ("CPU ms per pod without device plugins", _used(alone)),
        *(() if other is None else (("CPU ms per pod of kube-scheduler", _used(other)),)),
        ("load", f"{load['before']:.2f} before, {load['after']:.2f} after"),
    ]
    return table(("MEASURE", "VALUE"), rows)


def text_of_claims(shown: dict[str, Any]) -> str:
    """Return the measurements with ResourceClaims as a table."""
    load, other = shown["load_average"], shown["kube_scheduler"]
    rows = [
        ("pods", f"{shown['pods']} on {shown['nodes']} nodes with {shown['devices']} devices"),
        ("bindings/s", str(shown["bindings_per_second"])),
        ("bindings/s of kube-scheduler", f"{other['bindings_per_second']}, ratio {shown['ratio']}"),
        ("CPU ms per pod", _used(shown)),
        ("CPU ms per pod of kube-scheduler", _used(other)),
        ("load", f"{load['before']:.2f} before, {load['after']:.2f} after"),
    ]
    return table(("MEASURE", "VALUE"), rows)


def _rates(pair: dict[str, Any]) -> str:
    return f"{pair['bindings_per_second']}, a bare client {pair['bare_bindings_per_second']}, ratio {pair['ratio']}"


def _used(pair: dict[str, Any]) -> str:
    return ", ".join(f"{name} {used}" for name, used in pair["cpu_milliseconds_per_pod"].items())
