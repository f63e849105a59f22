"""Compiles the policies of traces. Where there is no C compiler they run as the Python that they are."""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

PACKAGE = Path("src/deviceshare_lab/traces")
SHARED = "deviceshare_lab.traces.shared_code"
"""Cython's own code for all modules: compiled with each of them it would take more than half of the time."""
COMPILER = ["-O3", "-g0", "-ffp-contract=off"]

modules = cythonize(
    [Extension(SHARED, ["shared_code.c"], extra_compile_args=COMPILER)]
    + [
        Extension(f"deviceshare_lab.traces.{path.stem}", [str(path.with_suffix(".py"))], extra_compile_args=COMPILER)
        for path in sorted(PACKAGE.glob("*.pxd"))
    ],
    build_dir="build",
    shared_utility_qualified_name=SHARED,
    include_path=["../libs/deviceshare/src"],  # the kernels that they call
    nthreads=os.cpu_count() or 1,
    compiler_directives={
        "annotation_typing": False,
        "boundscheck": False,
        "cdivision": True,
        "initializedcheck": False,
        "language_level": 3,
        "wraparound": False,
    },
)
for module in modules:
    # Said here, since cythonize does not hand it on.
    module.optional = True

setup(ext_modules=modules, options={"build_ext": {"parallel": os.cpu_count() or 1}})
