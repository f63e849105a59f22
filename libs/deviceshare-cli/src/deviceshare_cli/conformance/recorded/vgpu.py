"""vGPU: state ``[[pods, MiB, cores], …]`` by card."""

from deviceshare.formats import vgpu

from deviceshare_cli.conformance.cases import Answered, Case
from deviceshare_cli.conformance.recorded.form import filled
from deviceshare_cli.conformance.scene import Standing


class Vgpu:
    """vGPUs of hami-core."""

    modes = frozenset(vgpu.MODES)

    def choice(self, case: Case) -> str:
        """Return ``vgpu-ids-new``."""
        return vgpu.IDS

    def is_scored(self, case: Case) -> bool:
        """Return True."""
        return True

    def bare(self, key: str, value: str) -> str:
        """Drop empty slots: Volcano leaves none for a container without a request."""
        return filled(value) if key in (vgpu.IDS, vgpu.TO_ALLOCATE) else value

    def recorded(self, case: Case, step: Answered) -> object:
        """Return the cards with what is taken of them."""
        return step.state

    def state(self, case: Case, standing: Standing) -> object:
        """Return the same of ours."""
        used = standing.allocator.used_cards(standing.node.name)
        return [[taken.slots, taken.memory, taken.cores] for taken in used]
