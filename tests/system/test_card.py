"""lab/gpu/run.sh on a stand-in for the driver; all else is real, and built by ``make gpu-kit``."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KIT = ROOT / ".cache" / "gpu"
DRIVER = ROOT / "tests" / "node" / "plugins"
MIB = 15360


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a directory with the libraries of a driver, for one card."""
    if not (KIT / "key").exists():
        pytest.skip(f"allowed: no kit in {KIT} (make gpu-kit)")
    if subprocess.run(["unshare", "--mount", "--pid", "--fork", "true"], capture_output=True).returncode:
        pytest.skip("allowed: no namespaces of mounts and processes here")
    directory = tmp_path_factory.mktemp("driver")
    for name in ("nvml", "cuda"):
        source, made = DRIVER / f"{name}.c", directory / f"{name}.o"
        run("gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-fPIC", "-c", source, "-o", made)
    objects = [directory / "nvml.o", directory / "cuda.o"]
    called = symbols("--undefined-only", "--dynamic", KIT / "vgpu-plugin")
    rest = called - symbols("--defined-only", *objects)
    lines = "".join(f"int {name}(void) {{ return 3; }}\n" for name in sorted(rest) if name.startswith("nvml"))
    (directory / "rest.c").write_text(lines)
    library = directory / "libcuda.so.1"
    run("gcc", "-fPIC", "-shared", "-o", library, *objects, directory / "rest.c", "-lpthread")
    (directory / "libnvidia-ml.so.1").symlink_to(library.name)
    (directory / "cards").write_text(f"GPU-6d705000-aaaa-4bbb-8ccc-000000000000 {MIB} 0 Tesla T4\n")
    return directory


def run(*command: object) -> str:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def symbols(*arguments: object) -> set[str]:
    return {line.split()[-1].partition("@")[0] for line in run("nm", *arguments).splitlines() if " " in line}


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """Give a kit with the programs that were built, and the scripts as they are now."""
    for path in KIT.iterdir():
        if path.is_file():
            (tmp_path / path.name).symlink_to(path)
    for path in (ROOT / "lab" / "gpu").iterdir():
        (tmp_path / path.name).unlink(missing_ok=True)
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "venv").symlink_to(sys.prefix)
    return tmp_path


def share_card(kit: Path, driver: Path) -> "subprocess.CompletedProcess[str]":
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "GPU_DRIVER": str(driver),
        "STANDIN_CARDS": str(driver / "cards"),
    }
    return subprocess.run([str(kit / "run.sh")], env=environment, capture_output=True, text=True)


def test_three_pods_share_a_card(driver: Path, kit: Path) -> None:
    done = share_card(kit, driver)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "ok: memory beyond the claims was refused, and cores were throttled"
    for name, memory in (("unlimited", MIB // 8), ("cores-30", MIB // 4), ("cores-60", MIB // 3)):
        assert any(line.startswith(f"{name}: {memory} of {MIB} MiB; ") for line in lines)


@pytest.mark.parametrize(
    ("program", "name", "message"),
    [
        (
            "vgpu-plugin",
            b"CUDA_DEVICE_MEMORY_LIMIT_",
            "the plugin's variables have {'CUDA_DEVICE_MEMORY_LIMIT_0': None}",
        ),
        ("libvgpu.so", b"CUDA_DEVICE_SM_LIMIT", "% of the card's rate, and has claimed 30 %"),
    ],
)
def test_limit_that_is_lost_is_reported(driver: Path, kit: Path, program: str, name: bytes, message: str) -> None:
    """Either the plugin gives a limit another name, or the library looks for another one."""
    broken = (kit / program).read_bytes().replace(name, b"NONE" + name[4:])
    (kit / program).unlink()
    (kit / program).write_bytes(broken)
    shutil.copymode(KIT / program, kit / program)
    done = share_card(kit, driver)
    assert done.returncode == 1
    assert message in done.stderr


def test_process_without_the_library_is_reported(driver: Path, kit: Path) -> None:
    (kit / "libvgpu.so").unlink()
    run("gcc", "-shared", "-x", "c", "/dev/null", "-o", kit / "libvgpu.so")
    done = share_card(kit, driver)
    assert done.returncode == 1
    assert f"unlimited: it sees {MIB << 20} bytes" in done.stderr
