"""How each family's answers were recorded: what its state looks like, and which annotation its ties are about."""

from collections.abc import Mapping

from deviceshare_cli.conformance.recorded.form import Form
from deviceshare_cli.conformance.recorded.gpu_share import GpuMemory, GpuNumber
from deviceshare_cli.conformance.recorded.vgpu import Vgpu

FORMS: Mapping[str, Form] = {
    "gpushare-memory": GpuMemory(),
    "gpushare-number": GpuNumber(),
    "vgpu-hamicore": Vgpu(),
}
"""By the ``family`` of a case."""
