"""Run files: other commands find a running system."""

import os
import stat
import subprocess
from pathlib import Path

import pytest
from deviceshare_cli import runfile
from deviceshare_cli.errors import CommandError


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DEVICESHARE_RUN_DIR", str(tmp_path / "run"))
    return tmp_path / "run"


def run(pid: int | None = None, started_in: str = "") -> runfile.Run:
    return runfile.Run(
        pid=pid or os.getpid(),
        bus="nats://127.0.0.1:1",
        cluster="nats://127.0.0.1:2",
        metrics="http://127.0.0.1:3",
        directory="/nowhere",
        schedulers=("volcano",),
        started_in=started_in,
    )


@pytest.fixture
def dead_pid() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_a_run_file_is_found_and_only_its_owner_can_read_it(directory: Path) -> None:
    own = runfile.write(run())
    assert runfile.find() == run()
    assert runfile.find(str(own)) == run()
    assert stat.S_IMODE(own.stat().st_mode) == 0o600
    assert stat.S_IMODE((directory / "run.json").stat().st_mode) == 0o600


def test_the_latest_system_is_found_until_it_ends(directory: Path) -> None:
    first, second = run(), run(os.getppid())
    runfile.write(first)
    own = runfile.write(second)
    assert runfile.find() == second
    assert runfile.find(str(directory / f"run-{first.pid}.json")) == first
    runfile.remove(second)
    assert not own.exists()
    assert runfile.find() == first
    runfile.remove(first)
    assert list(directory.iterdir()) == []


def test_of_several_systems_reads_prefer_the_one_of_this_directory_and_writes_refuse(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, latest = run(started_in=str(tmp_path)), run(os.getppid(), started_in="/elsewhere")
    runfile.write(here)
    assert runfile.find_to_change(None) == here
    runfile.write(latest)
    assert runfile.find() == latest
    monkeypatch.chdir(tmp_path)
    assert runfile.find() == here
    with pytest.raises(
        CommandError, match=rf"2 systems are running: .*--run PID: process {latest.pid}, process {here.pid}"
    ):
        runfile.find_to_change(None)
    assert runfile.find_to_change(str(latest.pid)) == latest


@pytest.mark.parametrize("removed", [False, True])
def test_another_system_is_found_after_the_latest_was_killed(directory: Path, dead_pid: int, removed: bool) -> None:
    runfile.write(run())
    killed = runfile.write(run(dead_pid))
    if removed:  # as leftovers.py does after a second
        killed.unlink()
        (directory / "run.json").unlink()
    assert runfile.find() == run()


def test_the_end_of_the_older_system_does_not_affect_the_younger(directory: Path) -> None:
    first, second = run(), run(os.getppid())
    runfile.write(first)
    runfile.write(second)
    runfile.remove(first)
    assert runfile.find() == second


def test_the_error_without_a_running_system_names_the_command(directory: Path) -> None:
    with pytest.raises(CommandError, match=r"no deviceshare is running here: start one with `deviceshare up"):
        runfile.find()


def test_the_error_names_a_process_that_has_ended(directory: Path, dead_pid: int) -> None:
    runfile.write(run(dead_pid))
    with pytest.raises(CommandError, match=rf"no deviceshare is running here \(process {dead_pid} of .* has ended\)"):
        runfile.find()
    assert runfile.stale() == [run(dead_pid)]
    assert runfile.stale() == []


def test_an_invalid_run_file_is_an_error(directory: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(CommandError, match=r"other\.json is not a run file"):
        runfile.find(str(other))


def test_a_run_file_that_cannot_be_written_leaves_no_copy_of_the_secret(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace(self: Path, target: Path) -> Path:
        raise OSError("full")

    monkeypatch.setattr(Path, "replace", replace)
    with pytest.raises(CommandError, match="cannot write the run file"):
        runfile.write(run())
    assert list(directory.iterdir()) == []


def test_a_run_directory_to_which_another_user_links_is_refused(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In /tmp another user may make the name first, as a link to a directory of this user."""
    own = directory.parent / "own"
    own.mkdir()
    directory.symlink_to(own)
    runfile.write(run())
    (own / "run.json").unlink()
    lstat = Path.lstat

    def of_another(self: Path) -> os.stat_result:
        found = lstat(self)
        if self != directory:
            return found
        return os.stat_result((*found[:4], os.getuid() + 1, *found[5:]))

    monkeypatch.setattr(Path, "lstat", of_another)
    with pytest.raises(CommandError, match="belongs to another user"):
        runfile.write(run())
    assert not (own / "run.json").exists()
    with pytest.raises(CommandError, match="belongs to another user"):
        runfile.find()


def test_a_run_file_of_another_user_is_no_system(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own, planted = run(), run(os.getppid(), started_in=str(tmp_path))
    runfile.write(planted)
    runfile.write(own)
    monkeypatch.chdir(tmp_path)
    assert runfile.find() == planted
    owners = runfile._owners
    monkeypatch.setattr(runfile, "_owners", lambda path: {1} if str(planted.pid) in path.name else owners(path))
    assert runfile.find() == own
    assert runfile.find_to_change(None) == own


def test_a_system_is_found_from_a_directory_that_was_deleted(
    directory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runfile.write(run())
    runfile.write(run(os.getppid()))
    (gone := tmp_path / "gone").mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert runfile.working_directory() == ""
    assert runfile.find() == run(os.getppid())
