"""The recorded form of each family: its state, and the annotation that names its devices."""

from collections.abc import Mapping

from deviceshare_cli.conformance.recorded.form import Form
from deviceshare_cli.conformance.recorded.gpu_share import GpuMemory, GpuNumber
from deviceshare_cli.conformance.recorded.hami_vnpu import HamiVnpu
from deviceshare_cli.conformance.recorded.mindcluster import MindCluster
from deviceshare_cli.conformance.recorded.vgpu import HamiCore, Mig

FORMS: Mapping[str, Form] = {
    "gpushare-memory": GpuMemory(),
    "gpushare-number": GpuNumber(),
    "vgpu-hamicore": HamiCore(),
    "vgpu-mig": Mig(),
    "vnpu-hami": HamiVnpu(),
    "vnpu-mindcluster": MindCluster(),
}
"""By the ``family`` of a case."""
