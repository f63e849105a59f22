"""The policy ``binpack``: the fullest cards, and nodes by how full their cards would be.

Source: Volcano pkg/scheduler/api/devices/nvidia/vgpu; its score is rounded.
"""

from deviceshare.policies.card_policy import CardPolicy

BINPACK = CardPolicy(name="binpack", by_memory=-1, fullness=1.0, exact=False)
