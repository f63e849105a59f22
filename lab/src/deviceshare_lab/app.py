"""The command line of ``deviceshare lab``, which the command finds by its entry point if it is installed."""

import typer

from deviceshare_lab.bench.app import app as bench_app
from deviceshare_lab.chaos.app import app as chaos_app
from deviceshare_lab.conformance.app import app as conformance_app
from deviceshare_lab.studies.app import app as studies_app

app = typer.Typer(
    help="Measure and check deviceshare: speed, faults, recorded answers, policies.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(bench_app, name="bench")
app.add_typer(studies_app, name="study")
app.add_typer(conformance_app)
app.add_typer(chaos_app)
