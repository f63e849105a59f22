"""Run files: the addresses of a running ``up``, for ``apply``, ``get`` and the other commands.

Each ``up`` writes ``run-<pid>.json`` to the run directory (``$DEVICESHARE_RUN_DIR``, else ``deviceshare-<uid>`` under
``$XDG_RUNTIME_DIR`` or ``/tmp``); ``run.json`` is a copy of the latest one. After a kill of the
latest one, ``run.json`` is outdated or missing.
"""

import os
import tempfile
from pathlib import Path

import msgspec
from deviceshare_bus.wire.credentials import Credentials, of_directory, of_environment

from deviceshare_cli.endpoint import Endpoint
from deviceshare_cli.errors import CommandError
from deviceshare_cli.notices import to_stderr


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A running system: its process id and addresses."""

    pid: int
    bus: str
    """NATS URL of the bus."""
    cluster: str
    """NATS URL of the local cluster; empty on a live cluster."""
    metrics: str
    """HTTP URL of the metrics service, for ``/metrics`` and ``/api/v1``."""
    directory: str
    """Its private directory: stores and logs."""
    schedulers: tuple[str, ...] = ()
    """Values of ``spec.schedulerName`` of the pods that the system places."""
    target: str = ""
    """Its cluster: ``local:DIR``, ``kube`` or ``kube:CONTEXT``."""
    started_in: str = ""
    """The working directory of its process."""
    token: str = ""
    """Opens ``metrics``: the secret of this run."""
    credentials: str = ""
    """The directory of the bus's credentials, as ``deviceshare credentials`` writes it; empty on a bus without users,
    and for a run file of another bus: the environment then names the credentials."""

    @property
    def endpoint(self) -> Endpoint:
        """The JSON API."""
        return Endpoint(self.metrics, self.token)

    def credentials_of(self, user: str) -> Credentials:
        """Return the credentials of a user of the bus."""
        return of_directory(Path(self.credentials), user) if self.credentials else of_environment(user)

    @property
    def title(self) -> str:
        """How messages name the system."""
        return f"process {self.pid}" + (f" ({self.target})" if self.target else "")


def run_directory() -> Path:
    """Return the directory of the run files, which may not exist yet."""
    own = os.environ.get("DEVICESHARE_RUN_DIR")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"deviceshare-{os.getuid()}"  # noqa: S108 - 0700, see write


def write(run: Run) -> Path:
    """Write the files of a run and return ``run-<pid>.json``.

    Raises CommandError if the directory belongs to another user or cannot be written.
    """
    directory = run_directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if {directory.lstat().st_uid, directory.stat().st_uid} != {os.getuid()}:  # a link, and where it leads
            raise CommandError(f"{directory} belongs to another user: set DEVICESHARE_RUN_DIR to your own directory")
        own = directory / f"run-{run.pid}.json"
        for path in (own, directory / "run.json"):
            _write(path, run)
    except OSError as error:
        raise CommandError(f"cannot write the run file in {directory}: {error.strerror or error}") from None
    return own


def remove(run: Run) -> None:
    """Remove the files of a run; ``run.json`` then describes the youngest other running system, if any."""
    directory = run_directory()
    (directory / f"run-{run.pid}.json").unlink(missing_ok=True)
    current = _read(directory / "run.json")
    if current is None or current.pid != run.pid:
        return
    if others := alive():
        _write(directory / "run.json", others[0])
    else:
        (directory / "run.json").unlink(missing_ok=True)


def find(chosen: str | None = None) -> Run:
    """Return the running system of a run file or process id, else the latest one of this user.

    If several run and none is chosen, the latest that was started in this directory is preferred, and a line on stderr
    names the one that is used. Raises CommandError if there is none.
    """
    run = _find(chosen)
    if chosen or not (others := _others(run)):
        return run
    here = working_directory()
    found = next((each for each in (run, *others) if here and each.started_in == here), run)
    is_here = bool(here) and found.started_in == here
    why = "the latest one of this directory" if is_here else f"the latest of {len(others) + 1}"
    named = ", ".join(each.title for each in (run, *others) if each is not found)
    to_stderr(f"deviceshare: using {found.title}, {why}; --run PID selects another: {named}")
    return found


def find_to_change(chosen: str | None) -> Run:
    """Return the running system that is chosen, else the only one. Raises CommandError if there is none, or several."""
    run = _find(chosen)
    if not chosen and (others := _others(run)):
        named = ", ".join(each.title for each in (run, *others))
        raise CommandError(f"{len(others) + 1} systems are running: select one by --run PID: {named}")
    return run


def _others(run: Run) -> list[Run]:
    return [each for each in alive() if each.pid != run.pid]


def _find(chosen: str | None) -> Run:
    """Return the running system that is chosen, else the latest one."""
    path = run_directory() / (f"run-{chosen}.json" if chosen and chosen.isdecimal() else "run.json")
    if chosen and not chosen.isdecimal():
        path = Path(chosen)
    _check_owner(path)
    run = _read(path)
    if chosen and run is None:
        raise CommandError(
            f"{chosen} is not a run file of deviceshare, and not the process id of a system of this user"
        )
    if not chosen and (run is None or not _is_alive(run)) and (others := alive()):
        # The latest system was killed: nothing has made run.json describe another one.
        run = others[0]
        _check_owner(run_directory() / f"run-{run.pid}.json")
    if run is None or not _is_alive(run):
        ended = f" (process {run.pid} of {path} has ended)" if run else ""
        raise CommandError(
            f"no deviceshare is running here{ended}: start one with `deviceshare up --cluster local:DIR`"
        )
    return run


def working_directory() -> str:
    """Return the directory in which this process was started, '' if it was deleted."""
    try:
        return str(Path.cwd())
    except OSError:
        return ""


def alive() -> list[Run]:
    """Return the running systems of this user, the latest first."""
    found = [_read(path) for path in _youngest_first(run_directory()) if _owners(path) == {os.getuid()}]
    return [run for run in found if run is not None and _is_alive(run)]


def stale() -> list[Run]:
    """Remove and return the run files of processes that ended without removing them."""
    found: list[Run] = []
    if run_directory().is_dir() and run_directory().stat().st_uid != os.getuid():
        return found
    for path in _youngest_first(run_directory()):
        run = _read(path)
        if run is not None and not _is_alive(run):
            path.unlink(missing_ok=True)
            found.append(run)
    return found


def _write(path: Path, run: Run) -> None:
    """Write a run file atomically, readable only by its owner."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".run-")  # mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(msgspec.json.format(msgspec.json.encode(run)) + b"\n")
        Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)  # it has the secret


def _read(path: Path) -> Run | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Run)
    except (OSError, msgspec.MsgspecError):
        return None


def _youngest_first(directory: Path) -> list[Path]:
    dated = []
    for path in directory.glob("run-*.json"):
        try:
            dated.append((path.stat().st_mtime, path))
        except OSError:  # removed since the listing
            continue
    return [path for _, path in sorted(dated, reverse=True)]


def _is_alive(run: Run) -> bool:
    """Return whether the process exists; one of another user has only got the same id."""
    try:
        os.kill(run.pid, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _owners(path: Path) -> set[int]:
    """Return the users who own a file and what it links to, none if it does not exist."""
    try:
        return {path.lstat().st_uid, path.stat().st_uid}
    except OSError:
        return set()


def _check_owner(path: Path) -> None:
    """Raise CommandError if a run file, or its directory, belongs to another user: it could name any address."""
    for each in (path, path.parent):
        owners = _owners(each)
        # Directories of the system such as /tmp contain files of all users.
        if owners and owners != {os.getuid()} and (each == path or path.parent == run_directory()):
            raise CommandError(f"{each} belongs to another user: set DEVICESHARE_RUN_DIR, or select a system by --run")
