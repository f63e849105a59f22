"""``deviceshare simulate fairness``."""

from pathlib import Path

import msgspec

from deviceshare_cli.errors import CommandError
from deviceshare_cli.simulate.fairness import as_text, scenes
from deviceshare_cli.simulate.plot import svg


def fairness(seed: int, plots: Path | None, *, as_json: bool) -> int:
    """Play the scenes and print what they show; returns the exit status: 1 where a claim does not hold."""
    shown = list(scenes(seed))
    if plots is not None:
        try:
            plots.mkdir(parents=True, exist_ok=True)
            for scene in shown:
                (plots / f"fairness-{scene.name}.svg").write_text(svg(scene.plot))
        except OSError as error:
            raise CommandError(f"cannot write plots to {plots}: {error}") from error
    if as_json:
        report = {each.name: {"claim": each.claim, "holds": each.holds, **each.numbers} for each in shown}
        print(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        print(as_text(shown))
    return 0 if all(scene.holds for scene in shown) else 1
