"""``deviceshare simulate fairness``."""

from pathlib import Path

from deviceshare_cli.output import indented_json
from deviceshare_cli.plots import write
from deviceshare_cli.simulate.fairness import as_text, scenes


def fairness(seed: int, plots: Path | None, *, as_json: bool) -> int:
    """Run the scenes, print the results, and return the exit status: 1 if a claim does not hold."""
    shown = list(scenes(seed))
    if plots is not None:
        for scene in shown:
            write(scene.plot, plots / f"fairness-{scene.name}.svg")
    if as_json:
        report = {each.name: {"claim": each.claim, "holds": each.holds, **each.numbers} for each in shown}
        print(indented_json(report))
    else:
        print(as_text(shown))
    return 0 if all(scene.holds for scene in shown) else 1
