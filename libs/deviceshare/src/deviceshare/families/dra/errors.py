"""Why the devices of a claim cannot be determined: errors that end an attempt, as in Kubernetes' allocator."""

from deviceshare.model import DeviceshareError


class AllocationError(DeviceshareError):
    """An error of the allocation.

    Args:
        kind: one word for programs, such as ``cel-runtime``.
        text: the claim, the request and what is wrong, for users; neither node nor device, since nodes share it.
        of_node: the error is the node's: other nodes may fit. Otherwise kube-scheduler ends the attempt.
    """

    def __init__(self, kind: str, text: str, *, of_node: bool = False) -> None:
        super().__init__(text)
        self.kind = kind
        self.text = text
        self.of_node = of_node
