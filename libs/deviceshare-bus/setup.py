"""Compiles the framing of the NATS protocol. Where there is no C compiler it runs as the Python that it is."""

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

FRAMING = Path("src/deviceshare_bus/wire/framing")

modules = cythonize(
    [
        Extension(
            f"deviceshare_bus.wire.framing.{path.stem}",
            [str(path.with_suffix(".py"))],
            extra_compile_args=["-O3", "-g0"],
        )
        for path in sorted(FRAMING.glob("*.pxd"))
    ],
    build_dir="build",
    compiler_directives={"annotation_typing": False, "language_level": 3},
)
for module in modules:
    # Said here, since cythonize does not hand it on.
    module.optional = True

setup(ext_modules=modules)
