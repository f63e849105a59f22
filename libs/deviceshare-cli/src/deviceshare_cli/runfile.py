"""How ``apply``, ``get`` and the others find a running ``up``: a file that says where it listens.

Each ``up`` has a file of its own, ``run-<pid>.json``, in the run directory (``$DEVICESHARE_RUN_DIR``, else
``deviceshare-<uid>`` under ``$XDG_RUNTIME_DIR`` or ``/tmp``); ``run.json`` is the one that was started last.
"""

import os
import tempfile
from pathlib import Path

import msgspec

from deviceshare_cli.errors import CommandError


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A running system: the process that runs it, and where its parts are reached."""

    pid: int
    bus: str
    """NATS URL of the bus."""
    cluster: str
    """NATS URL of the local cluster."""
    metrics: str
    """HTTP URL of the metrics service, for ``/metrics`` and ``/api/v1``."""
    directory: str
    """Its private directory: stores and logs."""
    schedulers: tuple[str, ...] = ()
    """The scheduler names whose pods it places."""


def run_directory() -> Path:
    """Return the directory of the run files; it may not exist yet."""
    own = os.environ.get("DEVICESHARE_RUN_DIR")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"deviceshare-{os.getuid()}"  # noqa: S108 - 0700, see write


def write(run: Run) -> Path:
    """Write the files of a run and return its own one. Raises CommandError where the directory is somebody else's."""
    directory = run_directory()
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        if directory.stat().st_uid != os.getuid():
            raise CommandError(f"{directory} belongs to another user: set DEVICESHARE_RUN_DIR to a directory of yours")
        own = directory / f"run-{run.pid}.json"
        for path in (own, directory / "run.json"):
            _write(path, msgspec.json.format(msgspec.json.encode(run)))
    except OSError as error:
        raise CommandError(f"cannot write the run file in {directory}: {error.strerror or error}") from None
    return own


def remove(run: Run) -> None:
    """Take the files of a run away; ``run.json`` then names the youngest other system that runs, if there is one."""
    directory = run_directory()
    (directory / f"run-{run.pid}.json").unlink(missing_ok=True)
    current = _read(directory / "run.json")
    if current is None or current.pid != run.pid:
        return
    others = [other for path in _youngest_first(directory) if (other := _read(path)) and _is_alive(other)]
    if others:
        _write(directory / "run.json", msgspec.json.format(msgspec.json.encode(others[0])))
    else:
        (directory / "run.json").unlink(missing_ok=True)


def find(file: Path | None = None) -> Run:
    """Return the system that runs: that of ``file``, else the last one started here. Raises CommandError for none."""
    path = file or run_directory() / "run.json"
    run = _read(path)
    if run is None and file is not None:
        raise CommandError(f"{file} is not a run file of deviceshare: `deviceshare up` names its own when it starts")
    if run is None or not _is_alive(run):
        gone = f" (process {run.pid}, named by {path}, is gone)" if run else ""
        raise CommandError(f"no deviceshare is running here{gone}: start one with `deviceshare up --cluster local:DIR`")
    return run


def stale() -> list[Run]:
    """Return the runs whose process is gone without having taken its files away, and take those away."""
    found = []
    for path in _youngest_first(run_directory()):
        run = _read(path)
        if run is not None and not _is_alive(run):
            path.unlink(missing_ok=True)
            found.append(run)
    return found


def _write(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read; readers see all of it or nothing."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=".run-")  # made with mode 0600
    with os.fdopen(descriptor, "wb") as file:
        file.write(data + b"\n")
    Path(name).replace(path)


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
        except OSError:  # its owner has just taken it away
            continue
    return [path for _, path in sorted(dated, reverse=True)]


def _is_alive(run: Run) -> bool:
    try:
        os.kill(run.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
