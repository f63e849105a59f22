"""The facts that decide about claims: pods and nodes, and what they imply."""

from collections.abc import Mapping

from deviceshare_binder.core.bind_task import BindTask, Verdict, judge
from deviceshare_binder.core.nodes import Nodes
from deviceshare_binder.core.views import PodView


class Facts:
    """The known pods by uid, and the nodes."""

    def __init__(self) -> None:
        self.pods: dict[str, PodView] = {}
        self.nodes = Nodes()

    def put(self, view: PodView) -> PodView:
        """Apply a pod's fact; return the view that is known now, which may have a newer revision."""
        before = self.pods.get(view.uid)
        self.pods[view.uid] = view = view if before is None else before.updated(view)
        return view

    def read(self, uid: str, revision: str, annotations: Mapping[str, str] | None) -> None:
        """Apply the revision and the annotations of a pod that was read, or written, and is not bound."""
        if (view := self.pods.get(uid)) is not None:
            self.pods[uid] = view.at(revision, annotations or {})

    def judge(self, task: BindTask) -> Verdict | None:
        """Return the outcome that the facts imply for a claim, None if no known fact prevents the binding."""
        return judge(task.claim, task.node.name, self.pods.get(task.claim.uid), self.nodes.views)

    def missing(self, task: BindTask) -> bool:
        """Return whether the pod or the node of a claim is not known."""
        return task.claim.uid not in self.pods or task.node.name not in self.nodes.views
