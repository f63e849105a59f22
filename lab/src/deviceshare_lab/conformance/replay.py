"""One recorded case, replayed step by step.

Every step is compared alone: after a difference the next step continues from Volcano's result. A difference is
deliberate only if our answer is exactly as recorded once a set of deviations
(:mod:`deviceshare_lab.conformance.deviations`) replaces the input by what Volcano reads.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec
from deviceshare.conf import SchedulerConf
from msgspec.structs import replace

from deviceshare_lab.conformance import outcomes
from deviceshare_lab.conformance.cases import BATCH, Allocate, Answered, Case, Place, Pod, Release
from deviceshare_lab.conformance.deviations import UNSCORED, Deviation, able_in, as_volcano, explanation
from deviceshare_lab.conformance.recorded import FORMS
from deviceshare_lab.conformance.scene import NOW, Answer, ReplayState, Scene, answer

CLOCK = {"<unix-seconds>": str(int(NOW)), "<unix-nanos>": str(round(NOW * 1_000_000_000))}
"""Recorded placeholders of times, and our values."""
BEFORE = "before the first step"


class Difference(msgspec.Struct, frozen=True):
    """A recorded value and our different one, at a step."""

    step: str
    field: str
    recorded: str
    ours: str

    @property
    def title(self) -> str:
        """The step and the field."""
        return f"{self.step}: {self.field}"


class Verdict(outcomes.Verdict, frozen=True):
    """The result of a case: unexplained differences, and as rules the deviations that explain other differences.

    ``steps``: the number of compared steps.
    """

    steps: int = 0

    @property
    def unexplained(self) -> tuple[Any, ...]:
        """The differences: those that deviations explain are not among them."""
        return self.differences


Differ = Callable[[Scene, ReplayState], Sequence[Difference]]
"""Compares our answer for a scene with the recorded one."""


class Replay:
    """One case on one node: Volcano's pods and our state."""

    def __init__(self, case: Case, conf: SchedulerConf) -> None:
        assert case.node is not None
        assert case.initial is not None
        self.case, self.initial = case, case.initial
        self.form = FORMS[case.family]
        self.scene = Scene(
            conf=conf,
            node=case.node,
            existing={pod.ref: pod for pod in case.pods},
            counted=frozenset(pod.ref for pod in case.pods),
            cluster_cm=case.cluster_cm,
            forgetful=case.variant == "con-cache-cleared",
            filtered=case.kind == BATCH,
            mig=case.initial.mig or (),
        )
        self.state = ReplayState(self.scene)
        self.differences: list[Difference] = []
        self.deviations: dict[str, None] = {}

    def run(self) -> Verdict:
        """Replay all steps up to the first that a known defect of Volcano affected."""
        self.compare(self.scene, self.presence)
        self.compare_state(BEFORE, self.initial)
        compared = 0
        for number, step in enumerate(self.case.steps):
            if frozenset(step.quirks) - UNSCORED:
                break
            compared += 1
            if isinstance(step, Place):
                self.place(f"step {number}, place {step.pod.ref}", step)
            else:
                self.release(f"step {number}, release {step.pod_ref}", step)
        return Verdict(tuple(self.differences), tuple(self.deviations), compared)

    def place(self, name: str, step: Place) -> None:
        """Compare the answer for a pod, then apply Volcano's result."""
        scene_of_step = replace(self.scene, pod=step.pod)
        ours = answer(scene_of_step, self.state)

        def differ(scene: Scene, state: ReplayState) -> Sequence[Difference]:
            return self.answered(name, step, ours if scene is scene_of_step else answer(scene, state))

        self.compare(scene_of_step, differ)
        if step.placed and step.allocate is not None:
            self.follow(step, step.allocate, ours)
        self.compare_state(name, step)

    def release(self, name: str, step: Release) -> None:
        """Remove a pod from the node and compare the state."""
        if step.pod_ref not in self.scene.existing:
            self.differences.append(Difference(name, "pod", "is on the node", "was never placed there"))
            return
        pods = {ref: pod for ref, pod in self.scene.existing.items() if ref != step.pod_ref}
        self.scene = replace(self.scene, existing=pods)
        if self.case.mode == "rebuild":
            self.state = ReplayState(self.scene)
        else:
            self.state.release(step.pod_ref)
        self.compare_state(name, step)

    def follow(self, step: Place, allocate: Allocate, ours: Answer) -> None:
        """Place a pod on the node with Volcano's annotations.

        In mode ``session`` a decision equal to ours is charged by its grants. Otherwise the pod is charged by its
        annotations, including those of the device plugin.
        """
        annotations = _written(allocate)
        pod = replace(step.pod, annotations=step.pod.annotations | annotations)
        if self.case.mode != "session":
            self.enter(replace(pod, annotations=pod.annotations | step.device_plugin_annotations))
            return
        locked = self.scene.locked or bool(allocate.node_lock)
        self.scene = replace(self.scene, existing=self.scene.existing | {pod.ref: pod}, locked=locked)
        if self.bare(ours.annotations) == self.bare(annotations):
            self.state.hold(pod, ours.grants)
        else:
            self.state.hold(pod, decided=True)

    def enter(self, pod: Pod) -> None:
        """Place or update a pod on the node, charged by its annotations."""
        existing = self.scene.existing | {pod.ref: pod}
        self.scene = replace(self.scene, existing=existing, counted=self.scene.counted | {pod.ref})
        if self.case.mode == "rebuild":
            self.state = ReplayState(self.scene)
        else:
            self.state.hold(pod)

    def presence(self, scene: Scene, state: ReplayState) -> Sequence[Difference]:
        """Compare whether the node has cards of the family, if recorded."""
        if self.initial.present is None:
            return ()
        ours = self.form.present(self.case, state.node)
        return differing(BEFORE, "devices on the node", self.initial.present, ours)

    def compare_state(self, name: str, step: Answered) -> None:
        """Compare the allocation of each card."""
        if step.state is None:
            return
        recorded = self.form.recorded(self.case, step)
        self.compare(
            self.scene,
            lambda _, state: differing(name, "state", recorded, self.form.state(self.case, step, state)),
        )
        self.scene = replace(self.scene, mig=step.mig or ())

    def answered(self, name: str, step: Place, ours: Answer) -> Sequence[Difference]:
        """Compare an answer for a pod; for random results of Volcano every recorded alternative is accepted."""
        if step.filter.skipped:
            given = sum(len(grant.devices) for grant in ours.grants) if self.initial.present else 0
            return differing(name, "devices given", 0, given)
        if ours.fits != step.placed:
            if "fits" in step.nondeterministic:
                return ()
            return differing(name, "fits", step.placed, ours.fits)
        if not ours.fits or step.allocate is None:
            return ()
        recorded, written = self.bare(_written(step.allocate)), self.bare(ours.annotations)
        choice = self.form.choice(self.case)
        found: list[Difference] = []
        if written.get(choice) not in [self.form.bare(choice, value) for value in step.alternatives]:
            for key in sorted(recorded.keys() | written.keys()):
                found += differing(name, f"annotation {key}", recorded.get(key, ""), written.get(key, ""))
        is_scored = self.form.is_scored(self.case) and "score" not in step.nondeterministic
        if is_scored and step.score is not None and not UNSCORED & frozenset(step.quirks):
            found += differing(name, "score", step.score, ours.score)
        return found

    def bare(self, annotations: Mapping[str, str]) -> dict[str, str]:
        """Return annotations without the slots of containers that have no device."""
        return {key: self.form.bare(key, value) for key, value in annotations.items()}

    def compare(self, scene: Scene, differ: Differ) -> None:
        """Compare, and search for deviations that explain a difference."""
        found = differ(scene, self.state)
        if not found:
            return

        def explains(deviations: Sequence[Deviation]) -> bool:
            other = as_volcano(scene, deviations)
            return not differ(other, ReplayState(other))

        if explaining := explanation(able_in(scene), explains):
            self.deviations |= dict.fromkeys(deviation.name for deviation in explaining)
        else:
            self.differences += found


def _written(allocate: Allocate) -> dict[str, str]:
    """Return the recorded annotations with our times."""
    return {key: CLOCK.get(value, value) for key, value in allocate.annotations.items()}


def differing(step: str, field: str, recorded: object, ours: object) -> Sequence[Difference]:
    """Return the difference between two values, none if they are equal."""
    if recorded == ours:
        return ()
    return (Difference(step, field, _shown(recorded), _shown(ours)),)


def _shown(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
