"""What a container does with its share of a card; it needs the driver alone. Prints a line of JSON.

``check.py BYTES [ROUNDS]``: it allocates half of what is free, then more than the rest of BYTES, and launches kernels
of ROUNDS rounds one after the other. Without ROUNDS it finds how many let a launch take some milliseconds.
"""

import ctypes
import json
import sys
import time
from pathlib import Path

OUT_OF_MEMORY = 2
PROCESSORS = 16
"""The attribute CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT."""
BLOCKS, THREADS = 2048, 64
"""Blocks of a launch for each processor, threads of a block: HAMi-core limits launches by their blocks."""
LAUNCH = 0.016
"""Seconds at least: what the processor adds to a launch does not count then."""
SETTLE, MEASURE = 4.0, 8.0
"""Seconds until HAMi-core has found its rate, and seconds that count."""

cuda = ctypes.CDLL("libcuda.so.1")
SPIN = Path(__file__).with_name("spin.ptx").read_bytes() + b"\0"


def call(name: str, *arguments: object) -> None:
    """Call a function of the driver. Exits if it fails."""
    if code := getattr(cuda, name)(*arguments):
        sys.exit(f"{name}: CUDA error {code}")


def allocate(size: int) -> int:
    """Allocate memory, which stays allocated; return the error, 0 if there is none."""
    address = ctypes.c_uint64()
    code: int = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size))
    return code


def main() -> None:
    """Check and print."""
    claim, rounds = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    call("cuInit", 0)
    context, module, spin, to = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint64()
    processors, free, total = ctypes.c_int(), ctypes.c_size_t(), ctypes.c_size_t()
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    call("cuCtxSetCurrent", context)
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    call("cuDeviceGetAttribute", ctypes.byref(processors), PROCESSORS, 0)
    call("cuMemAlloc_v2", ctypes.byref(to), ctypes.c_size_t(4))
    # Half of what is free: contexts use some memory.
    allocated = [allocate(size) for size in (free.value // 2, claim // 2 + 1)]

    call("cuModuleLoadData", ctypes.byref(module), SPIN)
    call("cuModuleGetFunction", ctypes.byref(spin), module, b"spin")

    def launch(rounds: int) -> float:
        number = ctypes.c_uint32(rounds)
        parameters = (ctypes.c_void_p * 2)(*(ctypes.addressof(one) for one in (to, number)))
        before = time.monotonic()
        call("cuLaunchKernel", spin, processors.value * BLOCKS, 1, 1, THREADS, 1, 1, 0, None, parameters, None)
        call("cuCtxSynchronize")
        return time.monotonic() - before

    if not rounds:
        rounds = 64
        while launch(rounds) < LAUNCH:
            rounds *= 2
    count, begin = 0, time.monotonic() + SETTLE
    while (now := time.monotonic()) < begin + MEASURE:
        count += now >= begin
        launch(rounds)
    result = {"total": total.value, "allocations": allocated, "rounds": rounds, "launches_per_second": count / MEASURE}
    print(json.dumps(result))


main()
