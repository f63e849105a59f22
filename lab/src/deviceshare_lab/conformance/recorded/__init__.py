"""The recorded form of each family: its state, and the annotation that names its devices."""

from collections.abc import Mapping

from deviceshare_lab.conformance.recorded.form import Form
from deviceshare_lab.conformance.recorded.gpu_share import GpuMemory, GpuNumber
from deviceshare_lab.conformance.recorded.hami_vnpu import HamiVnpu
from deviceshare_lab.conformance.recorded.mindcluster import MindCluster
from deviceshare_lab.conformance.recorded.vgpu import HamiCore, Mig

FORMS: Mapping[str, Form] = {
    "gpushare-memory": GpuMemory(),
    "gpushare-number": GpuNumber(),
    "vgpu-hamicore": HamiCore(),
    "vgpu-mig": Mig(),
    "vnpu-hami": HamiVnpu(),
    "vnpu-mindcluster": MindCluster(),
}
"""By the ``family`` of a case."""
