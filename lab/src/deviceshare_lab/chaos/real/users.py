"""The users of a run's bus: those of ``deviceshare credentials``, as ``up`` has them, and one that may do everything.

A bus without users is one without the directory: :func:`deviceshare_bus.wire.credentials.of_directory` then names no
files.
"""

from pathlib import Path

from deviceshare_bus.wire.credentials import FILES, SEED
from deviceshare_cli.credentials import files
from deviceshare_cli.credentials.keys import new_seed, public_of

AUTHORIZATION = f"{files.SERVER}/{files.AUTHORIZATION}"
"""The file with the users for nats-server, in the directory of credentials."""
STRANGER = "stranger"
"""Has every right in the account of the streams, for faults that no user of deviceshare could cause."""
_USERS = "    users: [\n"


def write(directory: Path) -> None:
    """Write the credentials of all users into a directory that does not exist yet."""
    files.write(directory, (), tls=False)
    seed = new_seed()
    files.put(directory / STRANGER / FILES[SEED], seed + "\n")
    # Services write, so the first account is that of the streams.
    account, users, others = files.read(directory / AUTHORIZATION).partition(_USERS)
    assert "jetstream: enabled" in account
    files.put(directory / AUTHORIZATION, f"{account}{users}      {{ nkey: {public_of(seed)} }}\n{others}")
