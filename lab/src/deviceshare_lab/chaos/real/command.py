"""``deviceshare lab chaos`` without ``--simulated``: the options as numbers and names."""

from deviceshare_cli.errors import CommandError
from deviceshare_cli.exit_status import run_and_exit

from deviceshare_lab.chaos.real.faults import parse_kinds
from deviceshare_lab.chaos.real.options import Options, parse_replicas
from deviceshare_lab.chaos.real.run import chaos


def run(seed: str, faults: str, kinds: str, replicas: str, options: Options) -> None:
    """Run chaos on real processes and exit: status 1 after a violation. Raises CommandError.

    ``options`` has the numbers; the texts replace its other fields.
    """
    if not seed.isdecimal():
        raise CommandError(f"--seed {seed!r} is not valid: expected a number")
    if faults and not faults.isdecimal():
        raise CommandError(f"--faults {faults!r} is not valid: expected a number")
    number = int(faults) if faults else None
    chosen = options._replace(
        seed=int(seed), faults=number, kinds=parse_kinds(kinds), replicas=parse_replicas(replicas)
    )
    run_and_exit(chaos(chosen))
